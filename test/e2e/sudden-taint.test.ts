import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { pemsOf, SdsStream } from "../agent/sds/sds-client.ts";
import { startTestAgent } from "../agent/stories/running-agent.ts";
import { issuerTables } from "../contract/service-under-test.ts";
import { temporaryFolder } from "../dev/temporary-folder.ts";
import { randomKek } from "../testkit/ca/running-ca.ts";
import { createTokenKey, jwksOf, mintAccountToken } from "../testkit/callers/tokens.ts";
import { parseLog } from "../testkit/log-lines.ts";
import { createOperatorFolder, rampart } from "../testkit/programs/command-line.ts";
import { serveToml, startServeProcess } from "../testkit/programs/serve-process.ts";

const tokenKey = await createTokenKey("ES256", "key-1");
const { issuer } = issuerTables.cluster;

/** The refresh hint of every bundle: an agent that only polls may hear of a taint as late as this. */
const refreshHintSeconds = 300;

test("a taint on the store of a running server reaches a workload in seconds, without a CSR", async () => {
  const kek = randomKek("k1");
  const folder = await temporaryFolder();
  const ISSUERS = [{ issuer, jwks: jwksOf(tokenKey) }];
  const toml = serveToml(join(folder, "store"), { PLAINTEXT_LISTEN: "127.0.0.1:0", ISSUERS });
  const operator = await createOperatorFolder(toml);
  const server = await startServeProcess(operator.config, kek);
  const tokenFile = join(folder, "token");
  await writeFile(tokenFile, await mintAccountToken(tokenKey, issuer, "foo:bar", new Date()));
  const socket = join(folder, "sds");
  const { event } = await startTestAgent({
    CA_ADDR: `http://127.0.0.1:${server.plaintextPort}`,
    POD_NAMESPACE: "foo",
    SERVICE_ACCOUNT: "bar",
    RAMPART_TOKEN_FILE: tokenFile,
    RAMPART_SDS_SOCKET: socket,
    RAMPART_STATUS_ADDR: "127.0.0.1:0",
  });
  await event("bundle-read");
  const stream = new SdsStream(socket);
  onTestFinished(() => stream.end());
  stream.subscribe("ROOTCA");
  const rootsOf = async (): Promise<string> => (await stream.secrets()).flatMap(pemsOf).join();
  const before = await rootsOf();
  stream.acknowledge("ROOTCA");
  const readiness = await fetch(`http://127.0.0.1:${server.monitoringPort}/readyz`);
  const { authority } = (await readiness.json()) as { authority: string };

  const words = `authority taint ${authority} --root immediately --yes -c ${operator.config}`;
  const { code, stderr } = await rampart(operator, words, { KEK: kek });
  const begun = performance.now();
  expect(parseLog(stderr)).toContainEqual(
    expect.objectContaining({ event: "authority-tainted", level: "warning" }),
  );
  expect(code).toBe(0);
  const after = await rootsOf();
  const seconds = (performance.now() - begun) / 1000;
  console.info(`another ROOTCA ${seconds.toFixed(1)} s after the taint`);
  expect(after).not.toBe(before);
  expect(seconds).toBeLessThan(refreshHintSeconds / 5);
});
