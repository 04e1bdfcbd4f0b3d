import { parseBase64Url, toBase64Url } from "../../pki/encoding/base64.ts";
import type { Bytes } from "../../pki/encoding/bytes.ts";
import { type SignatureAlgorithm, toX509Signature } from "../../pki/signature-algorithm.ts";
import { digestOf } from "./aws-kms.ts";
import {
  type Answer,
  ask,
  grant,
  type KeyPlace,
  KeyServiceError,
  type KeyServiceMeans,
  membersOf,
  parseCredential,
  remembered,
  type ServiceKey,
  textOf,
} from "./key-service.ts";

const pathForm = /^\/keys\/[A-Za-z0-9-]{1,127}\/[0-9a-f]{32}$/;
const version = "?api-version=2025-07-01";

/** A version of a key of Azure Key Vault or Managed HSM: `azurekms://<vault>/keys/<name>/<version>`. */
export function azureKey(place: KeyPlace, means: KeyServiceMeans): ServiceKey | undefined {
  const { origin, path, uri } = place;
  if (origin === undefined || !pathForm.test(path)) return undefined;
  const resource = /managedhsm/.test(origin) ? "managedhsm" : "vault";
  const tokenOf = remembered(means.clock, () => tokenFor(means, resource));

  async function call(act: string, body?: object): Promise<unknown> {
    const answer = await ask(means.fetch, `${origin}${path}${act}${version}`, {
      method: body ? "POST" : "GET",
      headers: { authorization: `Bearer ${await tokenOf()}`, "content-type": "application/json" },
      body: body ? JSON.stringify(body) : null,
    });
    if (answer.status === 200) return answer.json;
    throw faultOf(answer, act);
  }

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
    publicKey: async () => {
      const { kty, ...jwk } = membersOf(membersOf(await call(""))["key"]);
      const type = `${kty}`.replace("-HSM", "");
      const { crv, x, y, n, e } = jwk as Readonly<Record<string, string>>;
      const [key, algorithm] =
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
        .importKey("jwk", key as JsonWebKey, algorithm, true, ["verify"])
        .catch(() => {
          throw new KeyServiceError(
            "has a key of another type: a root takes EC P-256, P-384 or RSA",
          );
        });
      return new Uint8Array((await crypto.subtle.exportKey("spki", imported)) as ArrayBuffer);
    },
    sign: async (bytes, { hash = "SHA-256", scalarOctets }: SignatureAlgorithm) => {
      const alg = `${scalarOctets ? "ES" : "RS"}${hash.slice(4)}`;
      const signature = await transform("/sign", alg, await digestOf(bytes, hash));
      if (scalarOctets === undefined) return signature;
      if (signature.length === 2 * scalarOctets) return toX509Signature(signature, scalarOctets);
      throw new KeyServiceError("answered a signature of another curve");
    },
  };
}

/** By a client secret, by a federated token, or a token that the machine has. */
async function tokenFor({ fetch, credential }: KeyServiceMeans, resource: string) {
  const json = parseCredential(await credential("azurekms")) ?? {};
  const { access_token, expires_in, tenant, appId, password, assertion } = json;
  if (typeof access_token === "string")
    return { token: access_token, seconds: Number(expires_in) || 0 };
  const isWhole = /^[A-Za-z0-9.-]{1,253}$/.test(`${tenant ?? ""}`) && typeof appId === "string";
  if (!isWhole || (typeof password !== "string" && typeof assertion !== "string"))
    throw new KeyServiceError(
      "cannot be asked: its credential must be JSON with tenant, appId, and password or assertion",
    );
  return grant(fetch, `https://login.microsoftonline.com/${tenant}/oauth2/v2.0/token`, {
    grant_type: "client_credentials",
    client_id: appId,
    scope: `https://${resource}.azure.net/.default`,
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
    if (status === 401) return "refuses the credential";
    if (status === 403)
      return `does not let this credential: grant ${act === "" ? "get" : act.slice(1)} on the key`;
    if (status === 404) return "has no such key or version";
    if (status === 429) return "throttles its calls";
    if (status === 400) return "has a key of another use or type, or does not open the ciphertext";
    return "refused";
  };
  return new KeyServiceError(`${sentence()} (status ${status})`);
}
