import { createPublicKey } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { AwsClient } from "aws4fetch";
import { createTokenKey, mintAccountToken } from "../../testkit/callers/tokens.ts";
import { startAnswerer } from "../jwt/relying-parties.ts";
import type { Vault } from "../own-root/vault.ts";
import { type Front, startFront } from "./front.ts";

/** How a machine gets a credential of its own: the CA's secrets and variables, and what was seen of it. */
export interface Machine {
  readonly secrets?: Readonly<Record<string, string>>;
  readonly environment?: Readonly<Record<string, string>>;
  /** The secrets of somebody whose login has to fail. */
  readonly otherSecrets?: Readonly<Record<string, string>>;
  readonly seen: string;
}

/** Has the key that wraps be disabled, or enabled again. @returns What the service says of it then. */
export type Disable = (isDisabled: boolean) => Promise<RegExp>;

/** A real key service with keys for every purpose, behind a front. */
export interface RealService {
  readonly front: Front;
  readonly credentials: Readonly<Record<string, string>>;
  readonly machine?: Machine;
  /** A key that wraps. */
  readonly wrapping: string;
  /** Keys that sign, by their kinds. */
  readonly signing: Readonly<Record<"EC P-256" | "EC P-384" | "RSA", string>>;
  /** What it says of a ciphertext of another trust domain or id. */
  readonly misfit: RegExp;
  /** Where the service knows disabled keys. */
  readonly disable?: Disable;
  readonly end: () => Promise<void>;
}

export async function realTransit(vault: Vault): Promise<RealService> {
  const front = await startFront(vault.url, vault.ca);
  const create = async (name: string, type: string): Promise<string> => {
    await vault.write(`keys/${name}`, { type }, "transit");
    return `hashivault://${front.host}/transit/keys/${name}`;
  };
  const wrapping = await create("kek", "aes256-gcm96");
  let version = 1;
  return {
    front,
    credentials: { KEY_CREDENTIAL_HASHIVAULT: vault.token },
    wrapping,
    signing: {
      "EC P-256": `${await create("p256", "ecdsa-p256")}?version=1`,
      "EC P-384": await create("p384", "ecdsa-p384"),
      RSA: await create("rsa", "rsa-2048"),
    },
    misfit: /another key, trust domain or KEK id/,
    disable: async (isDisabled) => {
      // A version that may no longer be used is the transit engine's disabled key, and a newer one has to be there.
      if (isDisabled) await vault.write("keys/kek/rotate", {}, "transit");
      if (isDisabled) version++;
      const min_decryption_version = isDisabled ? version : 1;
      await vault.write("keys/kek/config", { min_decryption_version }, "transit");
      return /no longer allows this version of the key/;
    },
    end: () => front.close(),
  };
}

/** Logins by Vault's JWT auth method: its verdict is real, and the token that it gives is the administrator's. */
export async function withLogins(
  service: RealService,
  vault: Vault,
  { program, folder }: { readonly program: string; readonly folder: string },
): Promise<RealService> {
  const key = await createTokenKey("ES256");
  const publicKey = createPublicKey({ key: key.publicJwk, format: "jwk" });
  const pem = publicKey.export({ type: "spki", format: "pem" });
  const issuer = "https://cluster.test";
  const config = { jwt_validation_pubkeys: [pem], bound_issuer: issuer };
  const role = { role_type: "jwt", user_claim: "sub", bound_audiences: "vault", policies: "ca" };
  const { ask, end } = startAnswerer(program, [JSON.stringify(config), JSON.stringify(role)]);
  service.front.answer = async (path, body) => {
    const { role, jwt } = JSON.parse(`${body}`) as { readonly role: string; readonly jwt: string };
    const said = path === "/v1/auth/jwt/login" && role === "cart" ? await ask(jwt) : "refused";
    if (said.startsWith("refused")) return [400, { errors: [said] }];
    return [200, { auth: { client_token: vault.token, lease_duration: 3600 } }];
  };
  const file = join(folder, "vault-login");
  const minted = mintAccountToken(key, issuer, "rampart:ca", new Date(), { aud: ["vault"] });
  await writeFile(file, await minted);
  const other = await createTokenKey("ES256");
  const forged = mintAccountToken(other, issuer, "rampart:ca", new Date(), { aud: ["vault"] });
  const login = { role: "cart", auth: "auth/jwt/login", jwt_file: file };
  return {
    ...service,
    machine: {
      secrets: { KEY_CREDENTIAL_HASHIVAULT: JSON.stringify(login) },
      otherSecrets: { KEY_CREDENTIAL_HASHIVAULT: JSON.stringify({ ...login, jwt: await forged }) },
      seen: "Vault's JWT auth method took the token in a file",
    },
    end: () => Promise.all([service.end(), end()]).then(() => {}),
  };
}

const region = "eu-central-1";

/** moto ignores the states of keys. */
export async function realAws(origin: string, folder: string): Promise<RealService> {
  const front = await startFront(origin);
  const aws = new AwsClient({
    accessKeyId: "AKIAINTEROP",
    secretAccessKey: "secret",
    service: "kms",
    region,
  });
  const create = async (KeySpec: string, KeyUsage: string): Promise<string> => {
    const response = await aws.fetch(`${origin}/`, {
      method: "POST",
      headers: {
        "content-type": "application/x-amz-json-1.1",
        "x-amz-target": "TrentService.CreateKey",
      },
      body: JSON.stringify({ KeySpec, KeyUsage }),
    });
    const { KeyMetadata } = (await response.json()) as { KeyMetadata: { Arn: string } };
    return `awskms://${front.host}/${KeyMetadata.Arn}`;
  };
  const token = join(folder, "web-identity");
  await writeFile(token, "header.of-a.pod");
  const signing = (spec: string): Promise<string> => create(spec, "SIGN_VERIFY");
  return {
    front,
    credentials: { KEY_CREDENTIAL_AWSKMS: "AKIAINTEROP:secret" },
    machine: {
      environment: {
        AWS_WEB_IDENTITY_TOKEN_FILE: token,
        AWS_ROLE_ARN: "arn:aws:iam::123456789012:role/ca",
        AWS_ENDPOINT_URL_STS: origin,
      },
      seen: "STS gave keys for the token in a file",
    },
    wrapping: await create("SYMMETRIC_DEFAULT", "ENCRYPT_DECRYPT"),
    signing: {
      "EC P-256": await signing("ECC_NIST_P256"),
      "EC P-384": await signing("ECC_NIST_P384"),
      RSA: await signing("RSA_2048"),
    },
    misfit: /another key, trust domain or KEK id/,
    end: () => front.close(),
  };
}
