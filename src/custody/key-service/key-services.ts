import { ConfigurationError } from "../../foundation/errors.ts";
import { isSafeToFetch } from "../../foundation/text.ts";
import type { Bytes } from "../../pki/encoding/bytes.ts";
import { awsKey } from "./aws-kms.ts";
import { azureKey } from "./azure-key-vault.ts";
import { googleKey } from "./google-kms.ts";
import type { KeyPlace, KeyServiceMeans, ServiceKey, ServiceName } from "./key-service.ts";
import { vaultKey } from "./vault-transit.ts";

/** The key of a URI. @throws ConfigurationError for a URI that is of no key */
export type KeyServices = (uri: string) => ServiceKey;

/** A KEK that key services open: by each of these keys, the first that answers. */
export interface WrappedKek {
  readonly id: string;
  readonly wrappings: readonly { readonly uri: string; readonly ciphertext: Bytes }[];
  readonly mark: Bytes;
}

/** The key services of a platform. */
export type OpenKeyServices = (means: KeyServiceMeans) => KeyServices;

type OpenKey = (place: KeyPlace, means: KeyServiceMeans) => ServiceKey | undefined;

const services: ReadonlyMap<string, OpenKey> = new Map<ServiceName, OpenKey>([
  ["awskms", awsKey],
  ["gcpkms", googleKey],
  ["azurekms", azureKey],
  ["hashivault", vaultKey],
]);

const forms =
  "awskms:///<ARN>, gcpkms://projects/…/cryptoKeys/<key>, azurekms://<vault>/keys/<name>/<version> or hashivault://<host>/<mount>/keys/<name>";

const uriForm = /^([a-z]+):\/\/([^/?#\s]*)(\/[^?#\s]*)(?:\?([^#\s]*))?$/;

/** Opens keys by their URIs, each once, so that its tokens are asked for once. */
export const openKeyServices: OpenKeyServices = (means) => {
  const known = new Map<string, ServiceKey>();
  return (uri) => {
    const key = known.get(uri) ?? open(uri, means);
    known.set(uri, key);
    return key;
  };
};

function open(uri: string, means: KeyServiceMeans): ServiceKey {
  const [, scheme = "", host = "", path = "", query] = uriForm.exec(uri) ?? [];
  const origin = originOf(host);
  const options = new URLSearchParams(query);
  const place = { uri, origin, path, options };
  const isReached = host === "" || origin !== undefined;
  const key = isReached ? services.get(scheme)?.(place, means) : undefined;
  if (key) return key;
  throw new ConfigurationError([
    `KEK, UPSTREAM_AUTHORITY: the URI of a key must have the form ${forms}`,
  ]);
}

/** HTTPS, but for this machine itself. */
function originOf(host: string): string | undefined {
  if (host === "") return undefined;
  const origins = [`http://${host}`, `https://${host}`];
  return origins.find((origin) => isSafeToFetch(origin));
}
