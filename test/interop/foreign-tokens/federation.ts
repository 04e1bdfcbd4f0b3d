import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { startAgent } from "../../../src/agent/agent.ts";
import { parseConfiguration } from "../../../src/agent/configuration.ts";
import { serveCa } from "../../testkit/ca/served-ca.ts";
import { createTokenKey, jwksOf, mintAccountToken } from "../../testkit/callers/tokens.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";
import { freePorts } from "../../testkit/network/free-ports.ts";
import { succeeds, until } from "../../testkit/time/until.ts";
import type { Outcome } from "../outcomes.ts";
import { startSpire } from "./spire.ts";

const issuer = "https://cluster.test";
const ownId = "spiffe://cluster.local/rampart/serve";
const spireId = "spiffe://other.test/spire/server";

const federates = (port: number, servedPort: number): string => `
  federation {
    bundle_endpoint {
      address = "127.0.0.1"
      port = ${port}
      profile "https_spiffe" {}
    }
    federates_with "cluster.local" {
      bundle_endpoint_url = "https://localhost:${servedPort}/bundle.json"
      bundle_endpoint_profile "https_spiffe" {
        endpoint_spiffe_id = "${ownId}"
      }
    }
  }
`;

/** `rampart serve` and an agent federate with SPIRE by https_spiffe, in both directions. */
export async function playFederation(program: string, parent: string): Promise<readonly Outcome[]> {
  const folder = join(parent, "federation");
  await mkdir(folder);
  await using ends = new AsyncDisposableStack();
  const key = await createTokenKey("ES256", "k1");
  const served = await serveCa({
    ISSUERS: [{ issuer, jwks: jwksOf(key) }],
    SERVING_NAMES: ["localhost", ownId],
  });
  ends.defer(served.end);
  const [port = 0] = await freePorts(1);
  const spire = await startSpire(program, folder, federates(port, served.port));
  ends.defer(spire.end);

  const ownFile = join(folder, "own.json");
  const own = await fetch(`http://127.0.0.1:${served.monitoringPort}/bundle.json`);
  await writeFile(ownFile, await own.text());
  const isRefreshed = () =>
    succeeds(spire.ask("federation", "refresh", "-id", "spiffe://cluster.local"));
  const bySpire: string[] = [];
  if (await isRefreshed()) bySpire.push("SPIRE trusts an endpoint without a first bundle");
  const id = ["-id", "spiffe://cluster.local"];
  await spire.ask("bundle", "set", ...id, "-path", ownFile, "-format", "spiffe");
  await until("SPIRE does not read the bundle", isRefreshed).catch((error) =>
    bySpire.push(String(error)),
  );

  const file = (name: string): string => join(folder, name);
  await writeFile(file("other.json"), await spire.bundle());
  await writeFile(file("roots.pem"), await served.bundle());
  await writeFile(file("token"), await mintAccountToken(key, issuer, "foo:bar", new Date()));
  const log = createEventRecorder();
  const agent = await startAgent(
    parseConfiguration({
      CA_ADDR: `https://localhost:${served.port}`,
      CA_ROOT_CA: file("roots.pem"),
      POD_NAMESPACE: "foo",
      SERVICE_ACCOUNT: "bar",
      RAMPART_TOKEN_FILE: file("token"),
      RAMPART_SDS_SOCKET: file("sds"),
      RAMPART_STATUS_ADDR: "127.0.0.1:0",
      RAMPART_BUNDLE_REFRESH: "1s",
      RAMPART_FEDERATED_BUNDLES: `other.test=https://localhost:${port} ${spireId} ${file("other.json")}`,
    }),
    { clock: () => new Date(), random: Math.random, log },
  );
  ends.defer(() => agent.close());
  const byAgent: string[] = [];
  const reads = (count: number) => () =>
    Promise.resolve(
      log.operations.filter(
        ({ event, outcome }) => event === "federated-bundle-read" && outcome === "taken",
      ).length >= count,
    );
  const note = (error: unknown) => void byAgent.push(String(error));
  await until("the agent does not read SPIRE's bundle", reads(1)).catch(note);
  await spire.ask("localauthority", "x509", "prepare");
  await until("the agent does not read SPIRE's next root", reads(2)).catch(note);
  return [
    {
      client: "SPIRE v1.13.0 by https_spiffe",
      server: "rampart serve",
      passed: 2 - bySpire.length,
      faults: bySpire,
    },
    {
      client: "rampart agent by https_spiffe",
      server: "SPIRE v1.13.0",
      passed: 2 - byAgent.length,
      faults: byAgent,
    },
  ];
}
