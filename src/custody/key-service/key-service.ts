import { isSafeToFetch } from "../../foundation/addresses.ts";
import { ConfigurationError, messageOf } from "../../foundation/errors.ts";
import type { Fetch } from "../../foundation/fetch.ts";
import type { Members } from "../../foundation/json-members.ts";
import type { Bytes } from "../../pki/encoding/bytes.ts";
import type { SignatureAlgorithm } from "../../pki/signature-algorithm.ts";

/** The names to which a wrapped KEK is bound. They appear in the service's own log and are not secret. */
export type WrappingContext = Readonly<Record<string, string>>;

/** A key in a key service, which never gives it away. The service is as little trusted as a CA upstream. */
export interface ServiceKey {
  /** The URI as the operator wrote it. */
  readonly uri: string;
  /** @throws KeyServiceError if the service does not answer, refuses, or answers for another key. */
  readonly unwrap: (ciphertext: Bytes, context: WrappingContext) => Promise<Bytes>;
  /** The signature as X.509 has it, unverified. @throws KeyServiceError as `unwrap`. */
  readonly sign: (bytes: Bytes, algorithm: SignatureAlgorithm) => Promise<Bytes>;
  readonly call: Call;
}

/** Lets a key perform an operation, by the service's own name for it. @throws KeyServiceError if the service does not answer, or refuses. */
export type Call = (act: string, body?: object) => Promise<Members>;

/** Why a key service did not do its work, as a clause behind its name. It never contains a credential. */
export class KeyServiceError extends Error {
  override readonly name = "KeyServiceError";
}

/** The services by the schemes of their keys' URIs, which are those of sigstore. */
export type ServiceName = "awskms" | "gcpkms" | "azurekms" | "hashivault";

/** A credential in one of the forms of its service: a text, or the members of JSON. */
export type Credential = string | Members;

/** What a platform gives to reach key services. */
export interface KeyServiceContext {
  readonly fetch: Fetch;
  readonly clock: () => Date;
  /** The credential for a service; if it is a token, it is for the audience. @throws KeyServiceError */
  readonly credential: (service: ServiceName, audience?: string) => Promise<Credential>;
}

/** The parts of a key's URI: where its service answers, and the path of the key there. */
export interface KeyPlace {
  readonly uri: string;
  /** The origin that the URI names; `undefined` for the usual one of the service. */
  readonly origin: string | undefined;
  readonly path: string;
  readonly options: URLSearchParams;
}

/** Opens the key at a place; `undefined` if the service has no keys at such a place. */
export type OpenKey = (place: KeyPlace, means: KeyServiceContext) => ServiceKey | undefined;

/** Opens the key of a URI. @throws ConfigurationError for a URI of no key. */
export type KeyServices = (uri: string) => ServiceKey;

const uriPattern = /^([a-z]+):\/\/([^/?#\s]*)(\/[^?#\s]*)(?:\?([^#\s]*))?$/;

/** Opens key services. */
export const KeyServices = {
  /** Opens keys by their URIs, each once, so that its tokens are asked for once. */
  open(services: Readonly<Record<ServiceName, OpenKey>>, means: KeyServiceContext): KeyServices {
    const known = new Map<string, ServiceKey>();
    const byScheme = new Map<string, OpenKey>(Object.entries(services));
    return (uri) => {
      const [, scheme = "", host = "", path = "", query] = uriPattern.exec(uri) ?? [];
      const options = new URLSearchParams(query);
      // Plain HTTP is allowed only to this machine itself, and not if the URI has the option `tls`.
      const origins = [`http://${host}`, `https://${host}`];
      const origin = origins.slice(options.has("tls") ? 1 : 0).find(isSafeToFetch);
      const place = { uri, origin, path, options };
      const isReached = host === "" || origin !== undefined;
      const key = known.get(uri) ?? (isReached ? byScheme.get(scheme)?.(place, means) : undefined);
      if (!key)
        throw new ConfigurationError([
          "KEK, UPSTREAM_AUTHORITY: the URI of a key must have a form that `rampart kek wrap --help` shows",
        ]);
      known.set(uri, key);
      return key;
    };
  },
};

/** Does work with the first of several keys that can do it. @throws KeyServiceError that says of each why it cannot. */
export async function firstOf<K extends { readonly uri: string }, T>(
  keys: readonly K[],
  work: (key: K) => Promise<T>,
): Promise<T> {
  const faults: string[] = [];
  for (const key of keys) {
    try {
      return await work(key);
    } catch (error) {
      faults.push(`${key.uri} ${messageOf(error)}`);
    }
  }
  throw new KeyServiceError(faults.join("; "));
}
