import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { decodeJwt, decodeProtectedHeader } from "jose";
import { type Agent, startAgent } from "../../../src/agent/agent.ts";
import { parseConfiguration } from "../../../src/agent/configuration.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";
import { lastingFolder } from "../../testkit/temporary-folder.ts";
import { envoyOf, pythonWithEnvoy } from "../envoy.ts";
import { controlPlanePrograms, versions } from "../kubernetes/cluster/programs.ts";
import { type Outcome, report } from "../outcomes.ts";
import { fromGoModule, python, type Software } from "../software.ts";
import { compareWithGoSpiffe } from "./comparison.ts";
import { cachedMilliseconds, type IssuingCa, startIssuingCa } from "./issuer.ts";
import {
  type Answerer,
  audience,
  type RelyingParty,
  startAnswerer,
  startApiServer,
  startEnvoy,
  startPyJwt,
  startVault,
} from "./relying-parties.ts";
import { typeTutorial } from "./tutorial.ts";

const cart = "spiffe://cluster.local/ns/shop/sa/cart";

/** go-spiffe's answer to a question of ./go-spiffe. */
interface Answer {
  readonly token?: string;
  readonly spiffeId?: string;
  readonly error?: string;
}

const here = import.meta.dirname;
const folder = await lastingFolder();
const outcomes: Outcome[] = [];
const scene = "JWT-SVIDs through two rotations and a taint";

function programOf(client: string, software: Software): string | undefined {
  if ("program" in software) return software.program;
  outcomes.push({ client, server: scene, passed: 0, faults: [], missing: software.missing });
  return undefined;
}

async function startWorkload(issuer: IssuingCa, socket: string): Promise<Agent> {
  const environment = {
    CA_ADDR: issuer.ca.url,
    POD_NAMESPACE: "shop",
    SERVICE_ACCOUNT: "cart",
    RAMPART_TOKEN_FILE: await issuer.ca.tokenFile("shop:cart"),
    RAMPART_SDS_SOCKET: join(folder, "sds"),
    RAMPART_WORKLOAD_API_SOCKET: socket,
    RAMPART_STATUS_ADDR: "127.0.0.1:0",
    RAMPART_BUNDLE_REFRESH: "1s",
  };
  const ports = { clock: () => new Date(), random: Math.random, log: createEventRecorder() };
  return startAgent(parseConfiguration(environment), ports);
}

/** go-spiffe asks the agent, or judges by the bundles that the agent streams. */
function goSpiffe(answerer: Answerer, op: "validate" | "source"): RelyingParty {
  const name = op === "validate" ? "go-spiffe, validated by the agent" : "go-spiffe's JWTSource";
  const judge = async (token: string): Promise<string> => {
    const said: Answer = JSON.parse(
      await answerer.ask(JSON.stringify({ op, token, audience: [audience] })),
    );
    return said.spiffeId ?? `refused: ${said.error}`;
  };
  return { name, judge, end: async () => undefined };
}

async function startAll(issuer: IssuingCa, answerer: Answerer): Promise<RelyingParty[]> {
  const parties = [goSpiffe(answerer, "validate"), goSpiffe(answerer, "source")];
  const pyJwt = programOf("PyJWT", await python("jwt", ["PyJWT[crypto]==2.10.1"]));
  if (pyJwt !== undefined) parties.push(startPyJwt(pyJwt, issuer));
  const vault = programOf(
    "Vault's JWT auth method",
    await fromGoModule(join(here, "vault"), "vault-jwt"),
  );
  if (vault !== undefined) parties.push(startVault(vault, issuer));
  const envoy = programOf("Envoy's jwt_authn", await pythonWithEnvoy());
  if (envoy !== undefined) parties.push(await startEnvoy(await envoyOf(envoy), issuer, folder));
  const newest = versions.at(-1);
  const programs = newest ? await controlPlanePrograms(newest) : "no version is known";
  const found = typeof programs === "string" ? { missing: programs } : { program: "" };
  if (programOf("kube-apiserver", found) !== undefined && typeof programs !== "string") {
    parties.push(await startApiServer(programs, issuer, folder));
  }
  return parties;
}

const keyOf = (token: string): string => String(decodeProtectedHeader(token).kid);

/** How often a party is asked before it counts as wrong: kube-apiserver looks for its issuer every ten seconds. */
const attempts = 30;

/** Whether the party comes to this judgement, at least once its caches are over. */
async function comesTo(
  party: RelyingParty,
  token: string,
  isGood: boolean,
): Promise<string | undefined> {
  let said = "";
  for (let i = 0; i < attempts; i++) {
    said = await party.judge(token);
    if ((said === cart) === isGood) return undefined;
    await sleep(500);
  }
  return said;
}

async function play(issuer: IssuingCa, answerer: Answerer): Promise<void> {
  const fetchToken = async (...audiences: string[]): Promise<string> => {
    const asked = { op: "fetch", audience: [audience, ...audiences] };
    const { token, error }: Answer = JSON.parse(await answerer.ask(JSON.stringify(asked)));
    if (token === undefined) throw new Error(`go-spiffe got no token: ${error}`);
    return token;
  };
  const parties = await startAll(issuer, answerer);
  const faults = new Map<RelyingParty, string[]>(parties.map((party) => [party, []]));
  const passed = new Map<RelyingParty, number>(parties.map((party) => [party, 0]));
  const all = async (token: string, isGood: boolean, when: string): Promise<void> => {
    for (const party of parties) {
      const said = await comesTo(party, token, isGood);
      if (said === undefined) passed.set(party, (passed.get(party) ?? 0) + 1);
      else faults.get(party)?.push(`${isGood ? "does not accept" : "accepts"} ${when}: ${said}`);
    }
  };
  const tokens: string[] = [await fetchToken()];
  await all(tokens[0] ?? "", true, "the first key");
  for (const rotation of ["step-1", "step-2"]) {
    await issuer.rotate();
    await sleep(2 * cachedMilliseconds);
    tokens.push(await fetchToken(rotation));
    for (const token of tokens) await all(token, true, `every live token after ${rotation}`);
  }
  const keys = new Set(tokens.map(keyOf));
  if (keys.size !== 3) throw new Error(`three tokens have ${keys.size} keys`);
  const [first = "", , stolen = ""] = tokens;
  await issuer.taint(keyOf(stolen));
  await issuer.rotate();
  await sleep(2 * cachedMilliseconds);
  await all(await fetchToken("step-3"), true, "a new key after a taint");
  await all(first, true, "a token of a key that is not tainted");
  await all(stolen, false, "a token of the tainted key");
  const replaced = await fetchToken("step-2");
  if (keyOf(replaced) === keyOf(stolen)) throw new Error("the agent gives out a tainted token");
  await all(`${first.slice(0, -6)}AAAAAA`, false, "a forged signature");
  const other = JSON.parse(
    await answerer.ask(JSON.stringify({ op: "fetch", audience: ["step-9"] })),
  );
  await all(other.token ?? "", false, "a token for another audience");
  const life = decodeJwt(first);
  if (life.iss !== issuer.url || life.sub !== cart) throw new Error("the token has other claims");
  for (const party of parties) {
    const outcome = { client: party.name, server: scene, passed: passed.get(party) ?? 0 };
    outcomes.push({ ...outcome, faults: faults.get(party) ?? [] });
  }
  await Promise.all(parties.map((party) => party.end()));
}

const go = programOf("go-spiffe", await fromGoModule(join(here, "go-spiffe"), "jwt-go-spiffe"));
if (go !== undefined) {
  const socket = join(folder, "api");
  const issuer = await startIssuingCa(folder);
  const agent = await startWorkload(issuer, socket);
  const answerer = startAnswerer(go, [], { SPIFFE_ENDPOINT_SOCKET: `unix://${socket}` });
  try {
    await play(issuer, answerer);
    outcomes.push(await compareWithGoSpiffe(answerer));
    outcomes.push(await typeTutorial(issuer));
  } finally {
    await answerer.end();
    await agent.close();
    await issuer.end();
  }
}
report(outcomes);
