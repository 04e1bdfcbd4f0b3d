import { isSafeToFetch } from "../../foundation/text.ts";
import { parseBase64Url, toBase64Url } from "../../pki/encoding/base64.ts";
import type { Bytes } from "../../pki/encoding/bytes.ts";
import { type SignatureAlgorithm, toX509Signature } from "../../pki/signature-algorithm.ts";
import {
  type Answer,
  callsWithToken,
  digestOf,
  grant,
  type KeyPlace,
  KeyServiceError,
  type KeyServiceMeans,
  membersOf,
  parseCredential,
  remembered,
  type ServiceKey,
  textOf,
  tokenInCredential,
} from "./key-service.ts";

const pathForm = /^\/keys\/[A-Za-z0-9-]{1,127}\/[0-9a-f]{32}$/;
const version = "?api-version=2025-07-01";

/** A version of a key of Azure Key Vault or Managed HSM: `azurekms://<vault>/keys/<name>/<version>`. */
export function azureKey(place: KeyPlace, means: KeyServiceMeans): ServiceKey | undefined {
  const { origin, path, uri } = place;
  if (origin === undefined || !pathForm.test(path)) return undefined;
  const [, service = "vault.azure.net"] = /\.((?:vault|managedhsm)\..+)/.exec(origin) ?? [];
  const tokenOf = remembered(means.clock, () => tokenFor(means, `https://${service}`));

  const url = (act: string): string => `${origin}${path}${act}${version}`;
  const call = callsWithToken(means, { url, tokenOf, faultOf });

  async function transform(act: string, alg: string, octets: Bytes): Promise<Bytes> {
    const answer = await call(act, { alg, value: toBase64Url(octets) });
    if (membersOf(answer)["kid"] !== `${origin}${path}`)
      throw new KeyServiceError("answered for another key");
    const value = parseBase64Url(textOf(answer, "value"));
    if (value) return value;
    throw new KeyServiceError("answered a value that is not base64url");
  }

  return {
    uri,
    // RSA-OAEP binds no context, and whoever has the public key can wrap: the mark of a KEK binds it.
    wrap: (octets) => transform("/wrapkey", "RSA-OAEP-256", octets),
    unwrap: (ciphertext) => transform("/unwrapkey", "RSA-OAEP-256", ciphertext),
    publicKey: async () => publicKeyOf(membersOf(await call(""))["key"]),
    sign: async (bytes, { hash = "SHA-256", scalarOctets }: SignatureAlgorithm) => {
      const alg = `${scalarOctets ? "ES" : "RS"}${hash.slice(4)}`;
      const signature = await transform("/sign", alg, await digestOf(bytes, hash));
      if (scalarOctets === undefined) return signature;
      if (signature.length === 2 * scalarOctets) return toX509Signature(signature, scalarOctets);
      throw new KeyServiceError("answered a signature of another curve");
    },
  };
}

/** SubjectPublicKeyInfo of a JWK, which Managed HSM marks by its type. @throws KeyServiceError */
async function publicKeyOf(key: unknown): Promise<Bytes> {
  const { crv, x, y, n, e } = membersOf(key) as Readonly<Record<string, string>>;
  const type = textOf(key, "kty").replace("-HSM", "");
  const [jwk, algorithm] =
    type === "EC"
      ? [
          { kty: type, crv, x, y },
          { name: "ECDSA", namedCurve: `${crv}` },
        ]
      : [
          { kty: type, n, e },
          { name: "RSASSA-PKCS1-v1_5", hash: "SHA-256" },
        ];
  const imported = await crypto.subtle
    .importKey("jwk", jwk as JsonWebKey, algorithm, true, ["verify"])
    .catch(() => {
      throw new KeyServiceError("has a key of another type: a root takes EC P-256, P-384 or RSA");
    });
  return new Uint8Array((await crypto.subtle.exportKey("spki", imported)) as ArrayBuffer);
}

/** By a client secret, by a federated token, or a token that the machine has. */
async function tokenFor({ fetch, credential }: KeyServiceMeans, resource: string) {
  const json = parseCredential(await credential("azurekms", resource)) ?? {};
  const ready = tokenInCredential(json);
  if (ready) return ready;
  const { tenant, appId, password, assertion } = json;
  const authority = `${json["authority"] ?? "https://login.microsoftonline.com"}`.replace(
    /\/$/,
    "",
  );
  const isWhole =
    /^[A-Za-z0-9.-]{1,253}$/.test(`${tenant ?? ""}`) &&
    typeof appId === "string" &&
    isSafeToFetch(authority);
  if (!isWhole || (typeof password !== "string" && typeof assertion !== "string"))
    throw new KeyServiceError(
      "cannot be asked: its credential must be JSON with tenant, appId, and password or assertion",
    );
  return grant(fetch, `${authority}/${tenant}/oauth2/v2.0/token`, {
    grant_type: "client_credentials",
    client_id: appId,
    scope: `${resource}/.default`,
    ...(typeof password === "string"
      ? { client_secret: password }
      : {
          client_assertion: `${assertion}`,
          client_assertion_type: "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
        }),
  });
}

function faultOf({ status, json }: Answer, act: string): KeyServiceError {
  const error = membersOf(membersOf(json)["error"]);
  const code = `${membersOf(error["innererror"])["code"] ?? error["code"] ?? ""}`;
  const sentence = (): string => {
    if (/KeyDisabled/i.test(code)) return "has disabled the key";
    if (/NotYetValid|Expired/i.test(code)) return "has a key that is not valid at this time";
    if (/Deleted/i.test(code)) return "has deleted the key, which can still be recovered";
    if (/Firewall|Connection/i.test(code)) return "does not let this address through its firewall";
    if (status === 401) return "refuses the credential";
    if (status === 403 && !/KeyOperationForbidden/i.test(code))
      return `does not let this credential: grant ${act === "" ? "get" : act.slice(1)} on the key`;
    if (status === 404) return "has no such key or version in this vault";
    if (status === 429) return "throttles its calls";
    if (status === 400 || status === 403)
      return "has a key of another use or type, or does not open the ciphertext";
    return "refused";
  };
  return new KeyServiceError(`${sentence()} (status ${status})`);
}
