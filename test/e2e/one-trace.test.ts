import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { expect, test } from "vitest";
import { servedName } from "../testkit/ca/served-ca.ts";
import { createTokenKey, jwksOf, mintAccountToken } from "../testkit/callers/tokens.ts";
import { randomKek } from "../testkit/configuration.ts";
import { startProgram, startRampart } from "../testkit/programs/rampart-process.ts";
import { temporaryFolder } from "../testkit/temporary-folder.ts";
import { eventually } from "../testkit/time/eventually.ts";

/** The fields of a line that join it to others. */
interface Line {
  readonly time?: string;
  readonly traceId?: string;
  readonly spanId?: string;
}

/** Runs `rampart agent run` with this environment, and collects its lines. */
function startAgent(environment: Readonly<Record<string, string>>): readonly Line[] {
  const { process } = startRampart(["agent", "run"], environment);
  const lines: Line[] = [];
  createInterface(process.stderr).on("line", (text) => lines.push(JSON.parse(text)));
  return lines;
}

test("one trace joins the lines of the agent, the gateway and the CA, for an answer and a refusal", async () => {
  const folder = await temporaryFolder();
  const file = async (name: string, text: string): Promise<string> => {
    await writeFile(join(folder, name), text);
    return join(folder, name);
  };
  const issuer = "https://a.test";
  const key = await createTokenKey("ES256", "k1");
  const token = async (account: string) =>
    file(account.replace(":", "-"), await mintAccountToken(key, issuer, account, new Date()));
  const gateways = [{ account: "istio-system/rampart-gateway", dns_names: [servedName] }];
  const table = { issuer, jwks: jwksOf(key), gateways, namespaces: ["foo", "istio-system"] };
  const LISTEN = "127.0.0.1:0";
  const ca = await startProgram(
    "serve",
    {
      LISTEN,
      STORE_DIRECTORY: join(folder, "store"),
      INCEPTION_DATE: new Date().toISOString().slice(0, 10),
      PROPAGATION_INTERVAL: "0s",
      SERVING_NAMES: ["localhost"],
      ISSUERS: [table],
    },
    { KEK: randomKek() },
  );
  const caPort = await ca.portOf("gRPC");
  const bundle = await fetch(`http://127.0.0.1:${await ca.portOf("monitoring")}/bundle.pem`);
  const roots = await file("roots.pem", await bundle.text());
  const gateway = await startProgram("gateway", {
    LISTEN,
    UPSTREAM: `https://localhost:${caPort}`,
    UPSTREAM_CA_FILE: roots,
    TOKEN_FILE: await token("istio-system:rampart-gateway"),
  });
  const CA_ADDR = `localhost:${await gateway.portOf("gRPC")}`;

  const linesAbout = async (account: string) => {
    const [POD_NAMESPACE = "", SERVICE_ACCOUNT = ""] = account.split(":");
    const agent = startAgent({
      CA_ADDR,
      CA_ROOT_CA: roots,
      POD_NAMESPACE,
      SERVICE_ACCOUNT,
      RAMPART_TOKEN_FILE: await token(account),
      RAMPART_SDS_SOCKET: join(folder, `${POD_NAMESPACE}.sock`),
      RAMPART_STATUS_ADDR: "127.0.0.1:0",
    });
    return eventually(() => {
      const first = agent.find(({ traceId }) => traceId !== undefined);
      const ofTrace = ({ traceId }: Line): boolean => traceId === first?.traceId;
      const lines = [first, gateway.log().find(ofTrace), ca.log().find(ofTrace)];
      expect(lines).not.toContain(undefined);
      return lines;
    });
  };

  const issued = await linesAbout("foo:bar");
  expect(issued).toMatchObject([
    { event: "certificate-obtained", spiffeId: "spiffe://cluster.local/ns/foo/sa/bar" },
    { event: "forwarded", outcome: "answered", parentId: issued[0]?.spanId },
    { event: "create-certificate", outcome: "issued", parentId: issued[1]?.spanId },
  ]);
  const refused = await linesAbout("elsewhere:bar");
  expect(refused).toMatchObject([
    { event: "renewal-failed", detail: expect.stringContaining("authentication failed") },
    { event: "forwarded", parentId: refused[0]?.spanId },
    { event: "create-certificate", outcome: "refused", parentId: refused[1]?.spanId },
  ]);
  expect(refused[0]?.traceId).not.toBe(issued[0]?.traceId);
  for (const lines of [issued, refused]) {
    for (const line of lines) expect(line?.time).toMatch(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/);
  }
});
