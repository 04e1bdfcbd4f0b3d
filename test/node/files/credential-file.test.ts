import { mkdir, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { ConfigurationError } from "../../../src/foundation/errors.ts";
import { backoffSeconds } from "../../../src/kubernetes/cluster-api.ts";
import { ConfigurationFile } from "../../../src/node/files/configuration-file.ts";
import { credentialInFile } from "../../../src/node/files/credential-file.ts";
import { ServeConfiguration } from "../../../src/node/serve/serve-configuration.ts";
import { addSeconds } from "../../../src/pki/x509/validity.ts";
import { serveCa } from "../../testkit/ca/served-ca.ts";
import { randomKek } from "../../testkit/configuration.ts";
import {
  apiCredential,
  clusterApiAt,
  type FakeApiServer,
  startApiServer,
} from "../../testkit/kubernetes/api-server.ts";
import { refusalOf } from "../../testkit/refusal.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";

const now = new Date("2026-11-21T12:00:00Z");
const name = "CLUSTER_CREDENTIAL_A";

let api: FakeApiServer;
let file: string;

beforeEach(async () => {
  api = await startApiServer();
  file = join(await temporaryFolder(), "token");
});

afterEach(() => api.close());

const shown = (): readonly unknown[] => api.asked.map(({ authorization }) => authorization);

function askedOf(faults: string[] = []): (seconds?: number) => Promise<unknown> {
  const unreachable = (_: string, { message }: Error) => void faults.push(message);
  const { send } = clusterApiAt(api, "prod-1", unreachable, credentialInFile(file));
  return (seconds = 0) => send({ path: "/api/v1/namespaces/a/pods" }, addSeconds(now, seconds));
}

describe("a credential in a file", () => {
  test("is read for each request, however it was replaced", async () => {
    const ask = askedOf();
    await writeFile(file, `${apiCredential}\n`);
    await ask();
    await writeFile(file, "second");
    await refusalOf(ask);
    await writeFile(`${file}.new`, ` ${apiCredential} `);
    await rename(`${file}.new`, file);
    await ask(backoffSeconds);
    const [first, last] = [`Bearer ${apiCredential}`, `Bearer ${apiCredential}`];
    expect(shown()).toEqual([first, "Bearer second", last]);
  });

  test.each<[string, () => Promise<unknown>, RegExp]>([
    ["is not there", async () => {}, /token does not exist$/],
    ["is a folder", () => mkdir(file), /token is not a file of at most 16384 octets$/],
    ["is empty", () => writeFile(file, "\n"), /must hold a bearer token on one line$/],
    ["has two lines", () => writeFile(file, "s3cret\ns3cret"), /must hold a bearer token/],
    ["has a space", () => writeFile(file, "s3cret s3cret"), /must hold a bearer token/],
    ["is no text", () => writeFile(file, Buffer.from("s3cret\u00ff")), /must hold a bearer token/],
    ["is too long", () => writeFile(file, "s3cret".repeat(3000)), /token is not a file of at/],
  ])(
    "that %s makes the cluster unreachable, and no request is sent",
    async (_, prepare, message) => {
      await prepare();
      const faults: string[] = [];
      const ask = askedOf(faults);
      expect(await refusalOf(ask)).toEqual({ reason: "cluster-unreachable", cluster: "prod-1" });
      expect(faults).toEqual([expect.stringMatching(message)]);
      expect(faults.join()).toMatch(/^cannot be asked: /);
      expect(faults.join()).not.toContain("s3cret");
      expect(api.asked).toEqual([]);
      await rm(file, { recursive: true, force: true });
      await writeFile(file, apiCredential);
      await ask(backoffSeconds);
    },
  );
});

describe("rampart serve", () => {
  const table = (credential = name) => ({
    issuer: "https://a.test",
    kubernetes: { server: api.origin, credential },
  });

  const configured = (values: Readonly<Record<string, unknown>>) =>
    ServeConfiguration.parse({
      ISSUERS: [table()],
      KEK: randomKek(),
      STORE_DIRECTORY: "/store",
      ...values,
    });

  test("gets the path of the file from its environment", async () => {
    const path = join(await temporaryFolder(), "rampart.toml");
    await writeFile(path, "");
    const values = await ConfigurationFile.read(path, { [`${name}_FILE`]: file, OTHER_FILE: "/x" });
    expect(values).toEqual({ [`${name}_FILE`]: file });
    await writeFile(file, apiCredential);
    const { ca } = configured(values);
    expect(await ca.clusterCredentials.get(name)?.()).toBe(apiCredential);
  });

  test("has no credential with the name of a file", () => {
    const values = { ISSUERS: [table(`${name}_FILE`)] };
    expect(() => configured(values)).toThrow(/^ISSUERS\[0\]\.kubernetes\.credential: /);
  });

  test("does not start without the file, and names it", async () => {
    const start = () => serveCa({ ISSUERS: [table()], [`${name}_FILE`]: file });
    const refused = await start().catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(ConfigurationError);
    expect(String(refused)).toContain(`${file} does not exist`);
    await writeFile(file, apiCredential);
    await (await start()).end();
  });
});
