import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { generateX25519Identity, identityToRecipient } from "age-encryption";
import { stringify as toToml } from "smol-toml";
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { stringify } from "yaml";
import { openDeployment } from "../../../src/cli/session/deployment.ts";
import { authorityCommand } from "../../../src/cli/verbs/authority/authority.ts";
import { examine } from "../../../src/cli/verbs/doctor/examination.ts";
import { OperatorError } from "../../../src/foundation/errors.ts";
import { randomKek } from "../../testkit/configuration.ts";
import { startTlsServer } from "../../testkit/network/loopback-tls.ts";
import { MemoryTerminal } from "../../testkit/programs/memory-terminal.ts";
import { s3Credential, startS3Api } from "../../testkit/stores/s3-api.ts";
import { secretsToken, startSecretsApi } from "../../testkit/stores/secrets-api.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";

const now = new Date("2026-11-21T12:00:00Z");
let folder: string;
let terminal: MemoryTerminal;

/** Writes a configuration with one issuer. @returns Its path. */
async function configure(name: string, values: object): Promise<string> {
  const path = join(folder, name);
  await writeFile(path, toToml({ ...values, ISSUERS: [{ issuer: "https://a.test" }] }));
  return path;
}

const authority = (config: string, ...words: readonly string[]): Promise<string> =>
  terminal.run(authorityCommand, [...words, "-c", config]);

/** Moves a CA by a backup to a directory and, after its store is empty, back. @returns What the directory lists. */
async function movedAndBack(config: string, empty: () => void | Promise<void>): Promise<string> {
  const key = join(folder, "key.txt");
  const identity = await generateX25519Identity();
  await writeFile(key, identity);
  const recipient = await identityToRecipient(identity);
  const moved = async (from: string, to: string): Promise<void> => {
    await authority(from, "export", "-o", `${from}.age`, "-r", recipient);
    await authority(to, "restore", `${from}.age`, "-i", key, "--yes");
  };
  const directory = await configure("directory.toml", { STORE_DIRECTORY: join(folder, "store") });
  await moved(config, directory);
  const listed = await authority(directory, "list", "--json");
  await empty();
  await moved(directory, config);
  return listed;
}

beforeEach(async () => {
  folder = await temporaryFolder();
  terminal = new MemoryTerminal({ clock: () => now });
  terminal.setVariable("KEK", randomKek());
  terminal.setVariable("AWS_ACCESS_KEY_ID", s3Credential.accessKeyId);
  terminal.setVariable("AWS_SECRET_ACCESS_KEY", s3Credential.secretAccessKey);
});

const namespace = { STORE: "kubernetes", STORE_NAMESPACE: "rampart-store" };

/** The configuration of a CA in Secrets, and what a person sees of those. */
async function inNamespace() {
  const api = await startSecretsApi();
  onTestFinished(api.close);
  const KUBERNETES_TOKEN_FILE = join(folder, "token");
  await writeFile(KUBERNETES_TOKEN_FILE, secretsToken);
  const place = { ...namespace, KUBERNETES_SERVER: api.origin, KUBERNETES_TOKEN_FILE };
  return {
    api,
    config: await configure("rampart.toml", place),
    names: () => [...api.secrets.keys()],
    clear: async () => {
      for (const each of [...api.secrets.keys()]) {
        const path = `/api/v1/namespaces/rampart-store/secrets/${each}`;
        await api.client.send({ method: "DELETE", path });
      }
    },
    refuse: () => writeFile(KUBERNETES_TOKEN_FILE, "another-token"),
  };
}

/** The configuration of a CA in a bucket, and what a person sees of that. */
async function inBucket() {
  const api = await startS3Api();
  onTestFinished(api.close);
  const place = {
    STORE: "s3",
    STORE_BUCKET: "rampart-store",
    STORE_PREFIX: "mesh-1/",
    S3_ENDPOINT: api.origin,
    S3_REGION: "eu-test-1",
  };
  return {
    api,
    config: await configure("rampart.toml", place),
    names: () => [...api.objects.keys()],
    clear: async () => api.objects.clear(),
    refuse: async () => {
      api.credential = { ...s3Credential, accessKeyId: "ANOTHER" };
    },
  };
}

describe.each([
  [
    "Secrets of a namespace",
    inNamespace,
    /^rampart\.authorities\.[0-9a-f]{40}$/,
    /^the Secrets of namespace rampart-store at http:\S+ cannot be read: the API server http:\S+ refuses the credential for GET \S+ \(status 401\)$/,
  ],
  [
    "a bucket",
    inBucket,
    /^mesh-1\/authorities\/[0-9a-f]{40}$/,
    /^the objects of http:\S+\/rampart-store\/mesh-1 cannot be read: the bucket http:\S+ refuses the credential for GET \(status 403, InvalidAccessKeyId\)$/,
  ],
] as const)("a verb on %s", (_, open, nameForm, refusal) => {
  test("founds a CA there, and moves it to a directory and back by a backup", async () => {
    const { config, names, clear } = await open();
    await authority(config, "init", "--yes");
    const [name = ""] = names();
    expect(name).toMatch(nameForm);
    expect(await movedAndBack(config, clear)).toContain(name.slice(-40));
    expect(names()).toContain(name);
  });

  test("writes nothing in a dry run", async () => {
    const { api, config } = await open();
    await authority(config, "init", "--dry-run");
    expect(api.asked.every((request) => request.startsWith("GET "))).toBe(true);
  });

  test("names the store and what it refuses, without the credential", async () => {
    const { config, refuse } = await open();
    await refuse();
    const refused = authority(config, "list");
    await expect(refused).rejects.toThrow(OperatorError);
    await expect(refused).rejects.toThrow(refusal);
    await expect(refused).rejects.not.toThrow(/another-token|AKID|secret\//);
  });
});

test("a verb founds nothing in a bucket whose service would let two writers overwrite each other", async () => {
  const { api, config } = await inBucket();
  api.ignores = "if-none-match";
  await expect(authority(config, "init", "--yes")).rejects.toThrow(/ignores If-None-Match/);
  expect(api.objects.size).toBe(0);
});

test("doctor finds that the service of a bucket lets several writers pass at once, and leaves no object", async () => {
  const { api, config, names } = await inBucket();
  await authority(config, "init", "--yes");
  const stored = names();
  const found = async () => (await examine({ config }, terminal)).findings.map(({ name }) => name);
  expect(await found()).not.toContain("store-overwrites");
  api.races = "if-match";
  expect(await found()).toContain("store-overwrites");
  expect(names()).toEqual(stored);
});

describe("a verb on Secrets, where the configuration names no API server,", () => {
  test("takes the kubeconfig", async () => {
    const asked: (string | undefined)[] = [];
    const server = await startTlsServer((request, response) => {
      asked.push(request.headers.authorization);
      response.end('{"kind":"SecretList","metadata":{},"items":[]}');
    });
    const cluster = { server: server.origin, "certificate-authority-data": btoa(server.ca) };
    const kubeconfig = {
      "current-context": "here",
      clusters: [{ name: "c", cluster }],
      users: [{ name: "u", user: { token: "token-of-an-operator" } }],
      contexts: [{ name: "here", context: { cluster: "c", user: "u" } }],
    };
    await writeFile(join(folder, "kubeconfig"), stringify(kubeconfig));
    terminal.setVariable("KUBECONFIG", join(folder, "kubeconfig"));
    const config = await configure("rampart.toml", namespace);
    const { store, place } = await openDeployment({ config }, terminal.environment, now);
    expect(await store.load()).toEqual([]);
    expect(place).toBe(`Secrets of namespace rampart-store at ${server.origin}`);
    expect(asked).toEqual(["Bearer token-of-an-operator"]);
  });

  test("says so where there is no kubeconfig either", async () => {
    terminal.setVariable("KUBECONFIG", join(folder, "nowhere"));
    const config = await configure("rampart.toml", namespace);
    await expect(openDeployment({ config }, terminal.environment, now)).rejects.toThrow(
      /nowhere does not exist/,
    );
  });
});
