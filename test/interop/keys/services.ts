import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { AwsClient } from "aws4fetch";
import type { Fetch } from "../../../src/foundation/fetch.ts";
import { fetchTrusting } from "../../../src/program/http/node-fetch.ts";
import { freePorts } from "../../testkit/network/free-ports.ts";
import { startChild } from "../../testkit/programs/child-process.ts";
import { until } from "../../testkit/time/until.ts";
import type { Vault } from "../own-root/vault.ts";

/** A real key service with keys for every purpose. */
export interface RealService {
  readonly fetch: Fetch;
  readonly credentials: Readonly<Record<string, string>>;
  /** Variables by which a machine finds a credential of its own, if the service gives one. */
  readonly environment?: Readonly<Record<string, string>>;
  /** A key that wraps. */
  readonly wrapping: string;
  /** Keys that sign, by their kinds. */
  readonly signing: Readonly<Record<"EC P-256" | "another" | "EC P-384" | "RSA", string>>;
  /** What it says of a ciphertext of another trust domain or id. */
  readonly misfit: RegExp;
  /** Has the key that wraps be disabled, or enabled again. @returns What the service says of it then. */
  readonly disable: (isDisabled: boolean) => Promise<RegExp>;
}

export async function realTransit(vault: Vault): Promise<RealService> {
  const create = async (name: string, type: string): Promise<string> => {
    await vault.write(`keys/${name}`, { type }, "transit");
    return `hashivault://${new URL(vault.url).host}/transit/keys/${name}`;
  };
  const wrapping = await create("kek", "aes256-gcm96");
  await vault.write("keys/kek/rotate", {}, "transit");
  return {
    // A key on this machine itself is asked without TLS, which this server has.
    fetch: (url, init) => fetchTrusting(vault.ca)(url.replace("http:", "https:"), init),
    credentials: { KEY_CREDENTIAL_HASHIVAULT: vault.token },
    wrapping,
    signing: {
      "EC P-256": `${await create("p256", "ecdsa-p256")}?version=1`,
      another: await create("another", "ecdsa-p256"),
      "EC P-384": await create("p384", "ecdsa-p384"),
      RSA: await create("rsa", "rsa-2048"),
    },
    misfit: /another key, trust domain or KEK id/,
    disable: async (isDisabled) => {
      // A KEK was wrapped by version 2; a version that may not decrypt is the transit engine's disabled key.
      if (isDisabled) await vault.write("keys/kek/rotate", {}, "transit");
      const min_decryption_version = isDisabled ? 3 : 1;
      await vault.write("keys/kek/config", { min_decryption_version }, "transit");
      return /no longer opens this version of the key/;
    },
  };
}

const region = "eu-central-1";

/** moto, which ignores the states of keys: a server in front says what AWS says of a disabled one. */
export async function realAws(
  program: string,
  folder: string,
): Promise<{ readonly service: RealService; readonly end: () => Promise<number> }> {
  const [port = 0] = await freePorts(1);
  const values = ["-m", "moto.server", "-H", "127.0.0.1", "-p", `${port}`];
  const child = startChild(program, values, { logFile: join(folder, "moto.log") });
  const origin = `http://127.0.0.1:${port}`;
  const plain = fetchTrusting(undefined);
  await until("moto answers", () =>
    plain(`${origin}/moto-api/`, {}).then(
      ({ status }) => status === 200,
      () => false,
    ),
  );
  const aws = new AwsClient({
    ...{ accessKeyId: "AKIAINTEROP", secretAccessKey: "secret", service: "kms", region },
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
    return `awskms://127.0.0.1:${port}/${KeyMetadata.Arn}`;
  };
  const token = join(folder, "web-identity");
  await writeFile(token, "header.of-a.pod");
  let isOff = false;
  const fetch: Fetch = async (url, init) =>
    isOff
      ? Response.json({ __type: "DisabledException", message: "is disabled" }, { status: 400 })
      : plain(url, init);
  const signing = (spec: string): Promise<string> => create(spec, "SIGN_VERIFY");
  const service: RealService = {
    fetch,
    credentials: { KEY_CREDENTIAL_AWSKMS: "AKIAINTEROP:secret" },
    environment: {
      AWS_WEB_IDENTITY_TOKEN_FILE: token,
      AWS_ROLE_ARN: "arn:aws:iam::123456789012:role/ca",
      AWS_ENDPOINT_URL_STS: origin,
    },
    wrapping: await create("SYMMETRIC_DEFAULT", "ENCRYPT_DECRYPT"),
    signing: {
      "EC P-256": await signing("ECC_NIST_P256"),
      another: await signing("ECC_NIST_P256"),
      "EC P-384": await signing("ECC_NIST_P384"),
      RSA: await signing("RSA_2048"),
    },
    misfit: /another key, trust domain or KEK id/,
    disable: async (isDisabled) => {
      isOff = isDisabled;
      return /has disabled the key/;
    },
  };
  return { service, end: () => child.end() };
}
