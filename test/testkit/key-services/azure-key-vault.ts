import { createDigestSigner } from "./digest-signer.ts";
import { type PlayedService, playService } from "./key-service.ts";

const version = "0123456789abcdef0123456789abcdef";
const host = "mesh.vault.azure.net";
export const azureUri = `azurekms://${host}/keys/kek/${version}`;
export const azureRootUri = `azurekms://${host}/keys/root/${version}`;

/** What `az ad sp create-for-rbac` prints. */
export const azureCredential: string = JSON.stringify({
  appId: "11111111-2222-3333-4444-555555555555",
  displayName: "ca",
  password: "secret~of~the~test",
  tenant: "66666666-7777-8888-9999-000000000000",
});

const oaep = { name: "RSA-OAEP", hash: "SHA-256" };
const { publicKey, privateKey } = await crypto.subtle.generateKey(
  { ...oaep, modulusLength: 2048, publicExponent: new Uint8Array([1, 0, 1]) },
  false,
  ["encrypt", "decrypt"],
);

/** Azure Key Vault, by its public reference: it checks every field that it gets. */
export async function playAzure(): Promise<PlayedService> {
  const signing = createDigestSigner();
  return playService(async (url, request, body) => {
    if (url.host === "login.microsoftonline.com") return ["token", tokenFor(url, body)];
    if (request.headers.get("authorization") !== "Bearer eyJ.token") throw new Error("no token");
    if (url.host !== host || url.search !== "?api-version=2025-07-01")
      throw new Error(`asked at ${url}`);
    const [, , name = "", , act = ""] = url.pathname.split("/");
    const kid = `https://${host}/keys/${name}/${version}`;
    if (name === "root" && act === "" && request.method === "GET")
      return ["get", { key: { ...signing.jwk, kid, kty: "EC-HSM", key_ops: ["sign", "verify"] } }];
    const { alg, value } = JSON.parse(body) as { readonly alg: string; readonly value: string };
    const octets = new Uint8Array(Buffer.from(value, "base64url"));
    const answered = (bytes: Uint8Array) => ({
      kid,
      value: Buffer.from(bytes).toString("base64url"),
    });
    if (name === "root" && act === "sign" && alg === "ES256" && octets.length === 32)
      return ["sign", answered(signing.raw(octets))];
    if (name !== "kek" || alg !== "RSA-OAEP-256") throw new Error(`asked for ${act} by ${alg}`);
    if (act === "wrapkey")
      return [
        "wrap",
        answered(new Uint8Array(await crypto.subtle.encrypt(oaep, publicKey, octets))),
      ];
    if (act !== "unwrapkey") throw new Error(`asked for ${act}`);
    const opened = await crypto.subtle.decrypt(oaep, privateKey, octets);
    return ["unwrap", answered(new Uint8Array(opened))];
  });
}

function tokenFor({ pathname }: URL, body: string): object {
  const { appId, password, tenant } = JSON.parse(azureCredential);
  const form = new URLSearchParams(body);
  const proof = form.get("client_secret") ?? form.get("client_assertion");
  const isRight =
    pathname === `/${tenant}/oauth2/v2.0/token` &&
    form.get("grant_type") === "client_credentials" &&
    form.get("client_id") === appId &&
    form.get("scope") === "https://vault.azure.net/.default" &&
    (proof === password || proof === "jwt.of.workload");
  if (!isRight) throw new Error("another grant");
  return { access_token: "eyJ.token", expires_in: 3599, token_type: "Bearer" };
}
