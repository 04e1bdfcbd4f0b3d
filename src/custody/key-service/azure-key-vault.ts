import { isSafeToFetch } from "../../foundation/text.ts";
import { parseBase64Url, toBase64Url } from "../../pki/encoding/base64.ts";
import type { Bytes } from "../../pki/encoding/bytes.ts";
import { type SignatureAlgorithm, toX509Signature } from "../../pki/signature-algorithm.ts";
import {
  type Answer,
  callsWithToken,
  digestOf,
  faultIn,
  grant,
  type KeyPlace,
  KeyServiceError,
  type KeyServiceMeans,
  membersOf,
  octetsIn,
  parseCredential,
  remembered,
  type ServiceKey,
  textOf,
  tokenInCredential,
  wrongType,
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
    return octetsIn(answer, "value", parseBase64Url);
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
  const kty = textOf(key, "kty").replace("-HSM", "");
  const algorithm =
    kty === "EC"
      ? { name: "ECDSA", namedCurve: `${crv}` }
      : { name: "RSASSA-PKCS1-v1_5", hash: "SHA-256" };
  const imported = await crypto.subtle
    .importKey("jwk", { kty, crv, x, y, n, e } as JsonWebKey, algorithm, true, ["verify"])
    .catch(() => {
      throw new KeyServiceError(wrongType("RSA", "EC P-256, P-384 or RSA"));
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

function faultOf(answer: Answer, act: string): KeyServiceError {
  const error = membersOf(membersOf(answer.json)["error"]);
  return faultIn(answer, `${membersOf(error["innererror"])["code"] ?? error["code"]}`, [
    [/KeyDisabled/i, "has disabled the key"],
    [/NotYetValid|Expired/i, "has a key that is not valid now"],
    [/Deleted/i, "has deleted the key"],
    [/Firewall|Connection/i, "does not let this address through its firewall"],
    [/^401/, "refuses the credential"],
    [
      /^400|KeyOperationForbidden/i,
      "has a key of another use or type, or does not open the ciphertext",
    ],
    [/^403/, `does not let this credential: grant ${act === "" ? "get" : act.slice(1)} on the key`],
    [/^404/, "has no such key in this vault"],
  ]);
}
