import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { run } from "../../testkit/programs/child-process.ts";
import { istiosTemplate } from "../agent/xds/istio-bootstrap.ts";
import { prebuiltPilotAgent } from "../agent/xds/pilot-agent.ts";
import { envoyOf, pythonWithEnvoy } from "../envoy.ts";
import { type Outcome, reportOutcomes } from "../outcome-table.ts";
import { prebuilt } from "../prebuilt.ts";
import { fromDebian, fromGoModule, orMissing, type Software } from "../software.ts";

/**
 * The places where programs of a mesh live: behind a proxy alone, and with one address family.
 * `node main.ts families` plays one part.
 */
const python = await pythonWithEnvoy();
const found: Readonly<Record<string, Software>> = {
  tinyproxy: await fromDebian("tinyproxy-bin", "usr/bin/tinyproxy"),
  envoy: "program" in python ? await orMissing(() => envoyOf(python.program)) : python,
  pilotAgent: await prebuilt(prebuiltPilotAgent),
  template: await orMissing(istiosTemplate),
  plane: await fromGoModule(join(import.meta.dirname, "control-plane"), "control-plane"),
};

const names = { client: "network namespaces", server: "this machine" };
const missing = Object.entries(found).flatMap(([what, software]): Outcome[] =>
  "missing" in software ? [{ ...names, what, result: "NOT RUN", detail: software.missing }] : [],
);
/** A network and a file of hosts of the suite's own, in which each program of the suite starts. */
const ownNetwork = ["--net", "--mount"];
const mayOwn = await run("unshare", [...ownNetwork, "ip", "link", "set", "lo", "up"]).then(
  ({ exitCode }) => exitCode === 0,
  () => false,
);

if (missing.length > 0) reportOutcomes(missing);
else if (!mayOwn) {
  const detail = "unshare and ip, which it takes root for, are not to be had";
  reportOutcomes([{ ...names, what: "all places", result: "not played", detail }]);
} else {
  const programs = Object.entries(found).map(([name, software]) => [
    name,
    "program" in software ? software.program : "",
  ]);
  const words = [...ownNetwork, process.execPath, join(import.meta.dirname, "inside.ts")];
  const [part = ""] = process.argv.slice(2);
  const child = spawn("unshare", [...words, JSON.stringify(Object.fromEntries(programs)), part], {
    stdio: "inherit",
  });
  const [exitCode] = await once(child, "exit");
  process.exitCode = exitCode ?? 1;
}
