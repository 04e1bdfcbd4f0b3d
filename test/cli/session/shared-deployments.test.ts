import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { stringify } from "yaml";
import { openDeployment } from "../../../src/cli/session/deployment.ts";
import { examine } from "../../../src/cli/verbs/doctor/examination.ts";
import { OperatorError } from "../../../src/foundation/errors.ts";
import { randomKek } from "../../testkit/configuration.ts";
import { startTlsServer } from "../../testkit/network/loopback-tls.ts";
import { MemoryTerminal } from "../../testkit/programs/memory-terminal.ts";
import { s3Credential, startS3Api } from "../../testkit/stores/s3-api.ts";
import { secretsToken, startSecretsApi } from "../../testkit/stores/secrets-api.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";
import { authority, configure, movedAndBack, now } from "./store-moves.ts";

let folder: string;
let terminal: MemoryTerminal;

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
    config: await configure(join(folder, "rampart.toml"), place),
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
    config: await configure(join(folder, "rampart.toml"), place),
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
    await authority(terminal, config, "init", "--yes");
    const [name = ""] = names();
    expect(name).toMatch(nameForm);
    expect(await movedAndBack(terminal, config, clear)).toContain(name.slice(-40));
    expect(names()).toContain(name);
  });

  test("writes nothing in a dry run", async () => {
    const { api, config, names } = await open();
    await authority(terminal, config, "init", "--dry-run");
    expect(names()).toEqual([]);
    expect(api.asked.every((request) => request.startsWith("GET "))).toBe(true);
  });

  test("names the store and what it refuses, without the credential", async () => {
    const { config, refuse } = await open();
    await refuse();
    const refused = authority(terminal, config, "list");
    await expect(refused).rejects.toThrow(OperatorError);
    await expect(refused).rejects.toThrow(refusal);
    await expect(refused).rejects.not.toThrow(/another-token|AKID|secret\//);
  });
});

test("a verb founds nothing in a bucket whose service would let two writers overwrite each other", async () => {
  const { api, config } = await inBucket();
  api.ignores = "if-none-match";
  await expect(authority(terminal, config, "init", "--yes")).rejects.toThrow(
    /ignores If-None-Match/,
  );
  expect(api.objects.size).toBe(0);
});

test("doctor finds that the service of a bucket lets several writers pass at once, and leaves no object", async () => {
  const { api, config, names } = await inBucket();
  await authority(terminal, config, "init", "--yes");
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
    const kubeconfig = {
      "current-context": "here",
      clusters: [
        {
          name: "c",
          cluster: {
            server: server.origin,
            "certificate-authority-data": Buffer.from(server.ca).toString("base64"),
          },
        },
      ],
      users: [{ name: "u", user: { token: "token-of-an-operator" } }],
      contexts: [{ name: "here", context: { cluster: "c", user: "u" } }],
    };
    await writeFile(join(folder, "kubeconfig"), stringify(kubeconfig));
    terminal.setVariable("KUBECONFIG", join(folder, "kubeconfig"));
    const config = await configure(join(folder, "rampart.toml"), namespace);
    const { store, place } = await openDeployment({ config }, terminal.environment, now);
    expect(await store.load()).toEqual([]);
    expect(place).toBe(`Secrets of namespace rampart-store at ${server.origin}`);
    expect(asked).toEqual(["Bearer token-of-an-operator"]);
  });

  test("says so where there is no kubeconfig either", async () => {
    terminal.setVariable("KUBECONFIG", join(folder, "nowhere"));
    const config = await configure(join(folder, "rampart.toml"), namespace);
    await expect(openDeployment({ config }, terminal.environment, now)).rejects.toThrow(
      /nowhere does not exist/,
    );
  });
});
