import { readFile, rm, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { join } from "node:path";
import { connect as connectTls } from "node:tls";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { issuerTables } from "../../contract/service-under-test.ts";
import { randomKek } from "../../testkit/configuration.ts";
import { breaches, breakSessions } from "../../testkit/network/broken-sessions.ts";
import { serveToml, startServe } from "../../testkit/programs/rampart-process.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";
import { hangMilliseconds } from "../../testkit/time/hang-limit.ts";

const counter = fileURLToPath(
  new URL("../../testkit/programs/session-counter.ts", import.meta.url),
);
/** Connections for each way and port. */
const count = 4;

/** `serve` as a program of its own: in the process of a test runner, Node lets go of every such session. */
async function start() {
  const folder = await temporaryFolder();
  const [config, held] = [join(folder, "rampart.toml"), join(folder, "held")];
  const ISSUERS = [{ ...issuerTables.cluster, jwks_uri: "http://127.0.0.1:9" }];
  const values = { PROPAGATION_INTERVAL: "0s", PLAINTEXT_LISTEN: "127.0.0.1:0", ISSUERS };
  await writeFile(config, serveToml(join(folder, "store"), values));
  const started = await startServe(config, randomKek(), {
    NODE_OPTIONS: `--import=${counter} --disable-warning=ExperimentalWarning`,
    HELD_SESSIONS: held,
  });
  const heldSessions = async (): Promise<number> => {
    await rm(held, { force: true });
    started.send("SIGUSR2");
    const read = () => readFile(held, "utf8").catch(() => "");
    await expect.poll(read, { timeout: hangMilliseconds }).toMatch(/^\d+$/);
    return Number(await read());
  };
  return { ...started, heldSessions };
}

test("the server keeps no session in memory that its peer has broken, in any of several ways", async () => {
  const { port, plaintextPort, heldSessions } = await start();
  const tls = { rejectUnauthorized: false, ALPNProtocols: ["h2"] };
  let strangers = 10;
  for (const frames of breaches.values()) {
    // Some are an abuse, which shuts out an address for a while.
    const from = { host: "127.0.0.1", localAddress: `127.0.0.${strangers++}` };
    await breakSessions(() => connectTls({ ...from, ...tls, port }), frames, count);
    await breakSessions(() => connect({ ...from, port: plaintextPort }), frames, count);
  }
  await expect.poll(heldSessions, { timeout: hangMilliseconds }).toBe(0);
});
