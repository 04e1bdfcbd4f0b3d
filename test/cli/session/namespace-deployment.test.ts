import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import { stringify } from "yaml";
import { openDeployment } from "../../../src/cli/session/deployment.ts";
import { OperatorError } from "../../../src/foundation/errors.ts";
import { randomKek } from "../../testkit/configuration.ts";
import { startTlsServer } from "../../testkit/network/loopback-tls.ts";
import { MemoryTerminal } from "../../testkit/programs/memory-terminal.ts";
import {
  type SecretsApi,
  secretsToken,
  startSecretsApi,
} from "../../testkit/stores/secrets-api.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";
import { authority, configure, movedAndBack, now } from "./store-moves.ts";

let folder: string;
let terminal: MemoryTerminal;
let api: SecretsApi;

beforeEach(async () => {
  folder = await temporaryFolder();
  api = await startSecretsApi();
  await writeFile(join(folder, "token"), secretsToken);
  terminal = new MemoryTerminal({ clock: () => now });
  terminal.setVariable("KEK", randomKek());
  return async () => {
    await api.close();
  };
});

const inNamespace = () =>
  configure(join(folder, "rampart.toml"), {
    STORE: "kubernetes",
    STORE_NAMESPACE: "rampart-store",
    KUBERNETES_SERVER: api.origin,
    KUBERNETES_TOKEN_FILE: join(folder, "token"),
  });

describe("a verb on Secrets of a namespace", () => {
  test("founds a CA there, and moves it to a directory and back by a backup", async () => {
    const config = await inNamespace();
    await authority(terminal, config, "init", "--yes");
    const [name = ""] = api.secrets.keys();
    expect(name).toMatch(/^rampart\.authorities\.[0-9a-f]{40}$/);
    const listed = await movedAndBack(terminal, config, async () => {
      for (const each of [...api.secrets.keys()]) {
        const path = `/api/v1/namespaces/rampart-store/secrets/${each}`;
        await api.client.send({ method: "DELETE", path });
      }
    });
    expect(listed).toContain(name.slice(20));
    expect([...api.secrets.keys()]).toContain(name);
  });

  test("writes nothing in a dry run", async () => {
    const config = await inNamespace();
    await authority(terminal, config, "init", "--dry-run");
    expect(api.secrets.size).toBe(0);
    expect(api.asked.every((request) => request.startsWith("GET "))).toBe(true);
  });

  test("names the store and what it refuses, without the token", async () => {
    const config = await inNamespace();
    await writeFile(join(folder, "token"), "another-token");
    const refused = authority(terminal, config, "list");
    await expect(refused).rejects.toThrow(OperatorError);
    await expect(refused).rejects.toThrow(
      /^the Secrets of namespace rampart-store at http:\S+ cannot be read: the API server http:\S+ refuses the credential for GET \S+ \(status 401\)$/,
    );
    await expect(refused).rejects.not.toThrow(/another-token/);
  });

  test("takes the kubeconfig where the configuration names no API server", async () => {
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
    const config = await configure(join(folder, "rampart.toml"), {
      STORE: "kubernetes",
      STORE_NAMESPACE: "rampart-store",
    });
    const { store, place } = await openDeployment({ config }, terminal.environment, now);
    expect(await store.load()).toEqual([]);
    expect(place).toBe(`Secrets of namespace rampart-store at ${server.origin}`);
    expect(asked).toEqual(["Bearer token-of-an-operator"]);
  });

  test("says so where there is no kubeconfig either", async () => {
    terminal.setVariable("KUBECONFIG", join(folder, "nowhere"));
    const config = await configure(join(folder, "rampart.toml"), {
      STORE: "kubernetes",
      STORE_NAMESPACE: "rampart-store",
    });
    await expect(openDeployment({ config }, terminal.environment, now)).rejects.toThrow(
      /nowhere does not exist/,
    );
  });
});
