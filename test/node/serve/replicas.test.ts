import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { createSharedStore } from "../../../src/node/stores/object-space.ts";
import { createSecretSpace } from "../../../src/node/stores/secret-space.ts";
import {
  type SecretsApi,
  secretsToken,
  startSecretsApi,
} from "../../testkit/stores/secrets-api.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";
import { eventually } from "../../testkit/time/eventually.ts";
import { mintedTogether, startingReplicas } from "./starting-replicas.ts";

async function startReplicas(count: number, api: SecretsApi) {
  const tokenFile = join(await temporaryFolder(), "token");
  await writeFile(tokenFile, secretsToken);
  const start = startingReplicas({
    STORE: "kubernetes",
    STORE_NAMESPACE: "rampart-store",
    KUBERNETES_SERVER: api.origin,
    KUBERNETES_TOKEN_FILE: tokenFile,
  });
  return Promise.all(Array.from({ length: count }, start));
}

async function startStore(): Promise<SecretsApi> {
  const api = await startSecretsApi();
  onTestFinished(api.close);
  return api;
}

const authoritiesIn = async ({ client }: SecretsApi): Promise<number> => {
  const store = createSharedStore(createSecretSpace(client.send, "rampart-store"));
  return (await store.load()).filter(({ kind }) => kind === "authority").length;
};

describe("replicas of one store", () => {
  test("found one CA together, and publish the same bundle", async () => {
    const api = await startStore();
    expect(await mintedTogether(await startReplicas(3, api))).toBe(1);
    expect(await authoritiesIn(api)).toBe(1);
  });

  test("say that nobody rotates while the API server is away, and go on when it is back", async () => {
    const api = await startStore();
    api.instead = (_, response) => Boolean(response.destroy());
    const [replica] = await startReplicas(1, api);
    await eventually(() =>
      expect(replica?.log.operations).toContainEqual(
        expect.objectContaining({
          event: "rotation-fault",
          detail: expect.stringMatching(/nobody knows which replica rotates: the API server http/),
        }),
      ),
    );
    expect(await replica?.text("/bundle.pem")).not.toContain("BEGIN");
    api.instead = undefined;
    await eventually(async () =>
      expect(await replica?.text("/bundle.pem")).toContain("BEGIN CERTIFICATE"),
    );
  });
});
