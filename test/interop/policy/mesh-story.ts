import { X509Certificate } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { createWorkload } from "../../testkit/callers/workload.ts";
import { nativeClient } from "../../testkit/network/native-grpc.ts";
import type { Child } from "../../testkit/programs/child-process.ts";
import { until } from "../../testkit/time/until.ts";
import { notRun, type Outcome } from "../agent/outcome-table.ts";
import { prebuiltPilotAgent, startPodsPilotAgent } from "../agent/xds/pilot-agent.ts";
import { prebuilt } from "../prebuilt.ts";
import { istiodName, type ServingCa, startServingCa } from "../revocation/serving-ca.ts";
import { Calls, ztunnelVariable } from "../revocation/ztunnel-scene.ts";
import { makeNetwork, startZtunnel } from "../revocation/ztunnels.ts";
import { namedBy } from "../software.ts";
import { effectIn, inShadow, lifeSeconds, live, logToken, mistaken, replayed } from "./rules.ts";

const names = {
  client: "pilot-agent of 2026-08-27",
  server: "rampart serve",
  what: "a rule in shadow, replayed, live, mistaken, and back",
};
const besides = { ...names, client: "ztunnel, twice" };

/** What the callers ask for, so that they ask again within the story. */
const asked = { SECRET_TTL: "40s" };

/** A mesh whose operator wants shorter lives, and then breaks the half of it that has RSA keys: pilot-agent. */
export async function playMesh(folder: string): Promise<Outcome[]> {
  const ztunnel = namedBy(ztunnelVariable);
  const pilotAgent = await prebuilt(prebuiltPilotAgent);
  if ("missing" in pilotAgent) return [notRun(names, pilotAgent.missing)];
  const values = {
    CALLER_QUOTA: 1_000_000,
    LOG_ORIGIN: "log.example.com/story",
    LOG_INCEPTION_DATE: new Date().toISOString().slice(0, 10),
    LOG_INTERVAL: "1s",
  };
  const secrets = { LOG_READERS: logToken };
  const started = { ...values, POLICY: inShadow };
  const ca = await startServingCa(join(folder, "ca"), "0.0.0.0", secrets, started);
  const pilot = await startPilotAgent(pilotAgent.program, folder, ca);
  try {
    if ("notPlayed" in ztunnel) {
      const detail = await playWith({ folder, ca, values, pilot });
      return [
        { ...names, result: "ok", detail },
        { ...besides, result: "not played", detail: ztunnel.notPlayed },
      ];
    }
    await using pair = await startPair(ztunnel.program, folder, ca);
    const detail = await playWith({ folder, ca, values, pilot, pair });
    return [names, besides].map((each) => ({ ...each, result: "ok", detail }));
  } catch (error) {
    return [{ ...names, result: "FAILED", detail: String(error) }];
  } finally {
    await pilot.child.end();
    await ca.end();
  }
}

/** Two ztunnels, of which one calls the other without a pause. */
interface Pair extends AsyncDisposable {
  readonly serialNumber: () => Promise<string>;
  /** Ends the calls. */
  readonly count: () => Promise<{ readonly requests: number; readonly failed: number }>;
}

async function startPair(program: string, folder: string, ca: ServingCa): Promise<Pair> {
  await using begun = new AsyncDisposableStack();
  const network = await makeNetwork(["a", "b"]);
  begun.defer(network.end);
  const options = { program, folder, ca, network, variables: asked };
  const [a, b] = await Promise.all([startZtunnel(options, "a"), startZtunnel(options, "b")]);
  begun.defer(a.end);
  begun.defer(b.end);
  await until("a first answer", async () => (await a.call(b.ip)) === 200);
  const calls = new Calls(a, b.ip);
  const all = begun.move();
  return {
    serialNumber: a.serialNumber,
    count: () => calls.end(),
    [Symbol.asyncDispose]: async () => {
      await calls.end();
      await all.disposeAsync();
    },
  };
}

interface Parts {
  readonly folder: string;
  readonly ca: ServingCa;
  readonly values: object;
  readonly pilot: PilotAgent;
  readonly pair?: Pair;
}

async function playWith({ folder, ca, values, pilot, pair }: Parts): Promise<string> {
  await until("a first certificate of pilot-agent", async () => (await pilot.life()) > 0);
  const callers = new Callers(ca);
  const decided = async (metric: string, effect: string): Promise<boolean> =>
    (await (await fetch(`${ca.published}/metrics`)).text()).includes(
      `rampart_policy_${metric}_total{rule="short",effect="${effect}"}`,
    );
  const replayOf = (POLICY: object) =>
    replayed(folder, ca.published, { ISSUERS: [ca.mesh.issuerTable(istiodName)], POLICY });

  if (!(await decided("shadow", "shortened"))) throw new Error("the shadow shortened nothing");
  let shown = await replayOf(live);
  await until("both halves of the mesh are in the log", async () => {
    shown = await replayOf(live);
    return [pair ? "a" : "caller", "server"].every((name) =>
      shown.rules.some(({ workloads }) => workloads.some((each) => each.endsWith(`foo/${name}`))),
    );
  });
  if (shown.code !== 3 || effectIn(shown, "denied") > 0) {
    throw new Error(`the replay says ${JSON.stringify(shown)}`);
  }

  await ca.configure({ ...values, POLICY: live });
  const before = await pair?.serialNumber();
  await until("both halves have shorter lives", async () => {
    const isShort = (await pilot.life()) <= lifeSeconds && (await callers.life()) <= lifeSeconds;
    return isShort && (pair === undefined || (await pair.serialNumber()) !== before);
  });

  const warned = await replayOf(mistaken);
  const denied = warned.rules.flatMap(({ effects, workloads }) =>
    effects["denied"] ? workloads : [],
  );
  if (warned.code !== 3 || !denied.some((each) => each.endsWith("foo/server"))) {
    throw new Error(`the replay does not show the mistake: ${JSON.stringify(warned)}`);
  }
  await ca.configure({ ...values, POLICY: mistaken });
  await until("pilot-agent is refused", () => decided("decisions", "denied"));
  await ca.configure({ ...values, POLICY: live });
  const refused = await pilot.serialNumber();
  await until("pilot-agent is answered", async () => (await pilot.serialNumber()) !== refused);

  const { requests, failed } = (await pair?.count()) ?? { requests: 0, failed: 0 };
  const calls = await callers.end();
  if (failed + calls.failed > 0) {
    throw new Error(`${failed} requests and ${calls.failed} calls failed`);
  }
  return `the replay counts ${effectIn(shown, "shortened")} shortened, and of the mistake ${effectIn(warned, "denied")} denied; ${requests} requests of the mesh and ${calls.calls} calls of the CA, 0 failed`;
}

/** pilot-agent without an Envoy, as of a proxyless workload: it keeps its certificate in a folder. */
interface PilotAgent {
  readonly child: Child;
  /** The seconds from its issuance on, without what it is backdated by; 0 before there is one. */
  readonly life: () => Promise<number>;
  readonly serialNumber: () => Promise<string>;
}

async function startPilotAgent(
  program: string,
  folder: string,
  ca: ServingCa,
): Promise<PilotAgent> {
  const { child, certificates } = await startPodsPilotAgent(program, {
    folder: join(folder, "server"),
    account: "foo/server",
    token: await ca.mesh.token({ account: "foo/server" }),
    ca: ca.address,
    rootFile: ca.rootFile,
    variables: asked,
  });
  const leaf = async (): Promise<X509Certificate | undefined> => {
    const pem = await readFile(join(certificates, "cert-chain.pem")).catch(() => Buffer.of());
    // A file that is being written has no end yet.
    return pem.includes("END CERTIFICATE") ? new X509Certificate(pem) : undefined;
  };
  return {
    child,
    life: async () => lifeOf(await leaf()),
    serialNumber: async () => (await leaf())?.serialNumber ?? "",
  };
}

/** Nine tenths of the validity: the rest is before the issuance. */
function lifeOf(leaf: X509Certificate | undefined): number {
  if (!leaf) return 0;
  return ((leaf.validToDate.getTime() - leaf.validFromDate.getTime()) / 1000) * (10 / 11);
}

/** Calls for certificates, one after the other, by a workload with EC keys. */
class Callers {
  #isEnding = false;
  #calls = 0;
  #failed = 0;
  #last = "";
  readonly #running: Promise<void>;

  constructor(ca: ServingCa) {
    this.#running = this.#run(ca);
  }

  life = async (): Promise<number> =>
    lifeOf(this.#last ? new X509Certificate(this.#last) : undefined) || Number.POSITIVE_INFINITY;

  async end(): Promise<{ readonly calls: number; readonly failed: number }> {
    this.#isEnding = true;
    await this.#running;
    return { calls: this.#calls, failed: this.#failed };
  }

  async #run({ address, mesh, rootFile }: ServingCa): Promise<void> {
    const roots = await readFile(rootFile, "utf8");
    const client = nativeClient(Number(address.split(":").at(-1)), istiodName, { roots });
    const { csrPem: csr } = await createWorkload();
    while (!this.#isEnding) {
      const authorization = `Bearer ${await mesh.token({ account: "foo/caller" })}`;
      const answer = await client.createCertificate(
        { csr, validityDuration: 40n },
        { authorization },
      );
      if ("certChain" in answer) this.#last = answer.certChain[0] ?? "";
      else this.#failed++;
      this.#calls++;
      await sleep(20);
    }
    client.close();
  }
}
