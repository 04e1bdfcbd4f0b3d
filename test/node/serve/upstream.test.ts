import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { bearer } from "../../contract/rpc-calls.ts";
import { issuerTables } from "../../contract/service-under-test.ts";
import { serveCa, servedName } from "../../testkit/ca/served-ca.ts";
import { createTokenKey, jwksOf } from "../../testkit/callers/tokens.ts";
import { createWorkload } from "../../testkit/callers/workload.ts";
import { nativeClient } from "../../testkit/network/native-grpc.ts";
import { startUpstream, text, vault } from "../../testkit/network/upstream-server.ts";
import { createCa } from "../../testkit/pki/plugged-in.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";
import { eventually } from "../../testkit/time/eventually.ts";
import { createVirtualTime } from "../../testkit/time/virtual-time.ts";

const day = 86_400;
const root = await createCa("O=company,CN=root");
const key = await createTokenKey("ES256", "k1");
const secret = "hvs.secret-of-the-upstream";

/** `rampart serve` under the root of a CA upstream, whose first intermediate signs. */
async function start(
  credential: Readonly<Record<string, string>> = { UPSTREAM_CREDENTIAL: secret },
) {
  const time = createVirtualTime(new Date());
  const upstream = await startUpstream(vault(root, time.clock));
  const served = await serveCa(
    {
      ISSUERS: [{ ...issuerTables.cluster, jwks: jwksOf(key) }],
      PLAINTEXT_LISTEN: "127.0.0.1:0",
      AUTHORITY_ROOT: "upstream",
      UPSTREAM_AUTHORITY: { kind: "vault", url: upstream.url },
      ...credential,
      MAX_WORKLOAD_CERT_TTL: "240h",
      AUTHORITY_LIFETIME: "960h",
    },
    time,
  );
  onTestFinished(() => served.end());
  const client = nativeClient(served.server.plaintextAddress?.port ?? 0, servedName);
  onTestFinished(client.close);
  const { csrPem: csr } = await createWorkload();
  return {
    upstream,
    served,
    time,
    /** Asks for a certificate. @returns The chain, leaf first. */
    issue: async () => {
      const headers = await bearer({ key, now: time.clock });
      const outcome = await client.createCertificate({ csr }, headers);
      if ("certChain" in outcome) return outcome.certChain;
      throw new Error(`${outcome.code}: ${outcome.message}`);
    },
    readiness: async () => {
      const response = await served.monitored("/readyz");
      return { status: response.status, ...(await response.json()) };
    },
  };
}

test("the credential for the upstream is read from its file for each request", async () => {
  const UPSTREAM_CREDENTIAL_FILE = join(await temporaryFolder(), "token");
  await writeFile(UPSTREAM_CREDENTIAL_FILE, "hvs.first\n");
  const { upstream, time, issue, readiness } = await start({ UPSTREAM_CREDENTIAL_FILE });
  await issue();
  await writeFile(UPSTREAM_CREDENTIAL_FILE, "hvs.second\n");
  time.pass(15 * day);
  await time.passUntil(() => expect(upstream.asked).toHaveLength(2));
  expect(upstream.asked.map(({ headers }) => headers["x-vault-token"])).toEqual([
    "hvs.first",
    "hvs.second",
  ]);
  await eventually(async () => expect((await readiness()).reasons).toEqual([]));
});

test("an upstream that hangs holds up no certificate and no look at readiness", async () => {
  const { upstream, served, time, issue, readiness } = await start();
  const [, intermediate] = await issue();
  let hangsUp: (() => void) | undefined;
  const asked = new Promise<void>((resolve) => {
    upstream.behaviour = (_, response) => {
      hangsUp = () => response.destroy();
      resolve();
    };
  });
  time.pass(15 * day);
  await time.passWhile(asked);
  expect((await issue())[1]).toBe(intermediate);
  expect(await readiness()).toMatchObject({ status: 200, ready: true });
  upstream.behaviour = text(403, "{}");
  hangsUp?.();
  await time.passWhile(served.log.until("rotation-fault"));
  expect((await issue())[1]).toBe(intermediate);
});
