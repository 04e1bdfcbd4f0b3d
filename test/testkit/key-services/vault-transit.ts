import { createWrappingKey, type PlayedService, playService } from "./key-service.ts";

export const vaultUri = "hashivault://vault.test/transit/keys/rampart";
export const vaultToken = "hvs.token-of-the-test";

/** A fault in the words of Vault. */
export const vaultFault = (status: number, ...errors: string[]) => ({ status, body: { errors } });

interface Asked {
  readonly plaintext?: string;
  readonly ciphertext?: string;
  readonly associated_data?: string;
  readonly role?: string;
  readonly jwt?: string;
}

/** The transit engine of Vault with one AEAD key, and a login that gives its token. */
export async function playVault(): Promise<PlayedService> {
  const key = await createWrappingKey();
  return playService(async ({ pathname }, request, body) => {
    const asked = JSON.parse(body) as Asked;
    if (request.headers.get("x-vault-request") !== "true") throw new Error("no x-vault-request");
    if (pathname === "/v1/auth/kubernetes/login") {
      if (asked.role !== "rampart" || asked.jwt !== "jwt.of.pod") throw new Error("another login");
      return ["login", { auth: { client_token: vaultToken, lease_duration: 600 } }];
    }
    if (request.headers.get("x-vault-token") !== vaultToken) throw new Error("another token");
    const bound = asked.associated_data ?? "";
    if (bound === "") throw new Error("nothing is bound");
    if (pathname === "/v1/transit/encrypt/rampart") {
      const octets = new Uint8Array(Buffer.from(asked.plaintext ?? "", "base64"));
      const sealed = (await key.encrypt(octets, bound)).toString("base64");
      return ["encrypt", { data: { ciphertext: `vault:v1:${sealed}`, key_version: 1 } }];
    }
    if (pathname !== "/v1/transit/decrypt/rampart") throw new Error(`asked at ${pathname}`);
    const sealed = Buffer.from((asked.ciphertext ?? "").replace("vault:v1:", ""), "base64");
    const opened = await key.decrypt(sealed, bound);
    return ["decrypt", { data: opened ? { plaintext: opened.toString("base64") } : {} }];
  });
}
