import {
  createServiceSigningKey,
  createWrappingKey,
  type PlayedService,
  playService,
  type SigningKind,
} from "./key-service.ts";

export const vaultUri = "hashivault://vault.test/transit/keys/rampart";
export const vaultRootUris = [1, 2].map(
  (version) => `hashivault://vault.test/transit/keys/root?version=${version}`,
);
export const vaultToken = "hvs.token-of-the-test";

/** A fault in the words of Vault. */
export const vaultFault = (status: number, ...errors: string[]) => ({ status, body: { errors } });

interface Asked {
  readonly plaintext?: string;
  readonly ciphertext?: string;
  readonly associated_data?: string;
  readonly role?: string;
  readonly input?: string;
  readonly marshaling_algorithm?: string;
  readonly signature_algorithm?: string;
  readonly key_version?: number;
  readonly jwt?: string;
}

/** The transit engine of Vault with one AEAD key, and a login that gives its token. */
export async function playVault(kind: SigningKind = "EC-P256"): Promise<PlayedService> {
  const signing = [await createServiceSigningKey(kind), await createServiceSigningKey(kind)];
  const key = await createWrappingKey();
  return playService(async ({ pathname }, request, body) => {
    const asked = JSON.parse(body || "{}") as Asked;
    if (request.headers.get("x-vault-request") !== "true") throw new Error("no x-vault-request");
    if (pathname === "/v1/auth/kubernetes/login") {
      if (asked.role !== "rampart" || asked.jwt !== "jwt.of.pod") throw new Error("another login");
      return ["login", { auth: { client_token: vaultToken, lease_duration: 600 } }];
    }
    if (request.headers.get("x-vault-token") !== vaultToken) throw new Error("another token");
    if (pathname === "/v1/transit/keys/root") {
      const keys = signing.map(({ spki }, i) => [
        `${i + 1}`,
        {
          public_key: `-----BEGIN PUBLIC KEY-----\n${spki.toString("base64")}\n-----END PUBLIC KEY-----\n`,
        },
      ]);
      return ["keys", { data: { latest_version: 2, keys: Object.fromEntries(keys) } }];
    }
    if (pathname.startsWith("/v1/transit/sign/root/")) {
      const version = asked.key_version ?? 2;
      const key = signing[version - 1];
      const { marshaling_algorithm: form, signature_algorithm: padding } = asked;
      if (pathname !== `/v1/transit/sign/root/sha2-${key?.hash.slice(4)}`)
        throw new Error(pathname);
      if (form !== "asn1" || padding !== "pkcs1v15" || !key) throw new Error("another signature");
      const signed = await key.sign(new Uint8Array(Buffer.from(asked.input ?? "", "base64")));
      const signature = `vault:v${version}:${signed.toString("base64")}`;
      return ["sign", { data: { signature, key_version: version } }];
    }
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
