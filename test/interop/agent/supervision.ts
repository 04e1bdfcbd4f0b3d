import { writeFile } from "node:fs/promises";
import { Agent, get } from "node:http";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { freePorts } from "../../testkit/network/free-ports.ts";
import { runRampart } from "../../testkit/programs/rampart-process.ts";
import { until } from "../../testkit/time/until.ts";
import { type Outcome, shown } from "../outcome-table.ts";
import { AgentProcess, type AgentVariables } from "./processes/agent-process.ts";
import { statusOf } from "./processes/steady-load.ts";

export interface SupervisionOptions {
  readonly envoy: string;
  readonly folder: string;
  readonly baseId: number;
  /** The environment of an agent for `a`, with its own socket. */
  readonly variables: AgentVariables;
  /** The port on which `b` accepts mutual TLS from `a`. */
  readonly inboundPort: number;
}

const connections = 40;
const requestPauseMilliseconds = 500;

/** Runs `rampart agent bootstrap` and `rampart agent run -- envoy`, kills Envoy, and ends it under connections. */
export function supervision(options: SupervisionOptions): Promise<Outcome> {
  const names = {
    client: "Envoy 1.40.0",
    server: "rampart agent run -- envoy",
    what: `bootstrap, crash, restart, drain of ${connections} keep-alive connections with 2 requests/s each`,
  };
  return shown(names, () => supervise(options));
}

async function supervise(options: SupervisionOptions): Promise<string> {
  const variables = {
    ...options.variables,
    // A drain of a fixed time would last for an hour.
    TERMINATION_DRAIN_DURATION_SECONDS: "3600",
    EXIT_ON_ZERO_ACTIVE_CONNECTIONS: "true",
    MINIMUM_DRAIN_DURATION: "1s",
  };
  const [listen = 0] = await freePorts(1);
  const peer = "spiffe://cluster.local/ns/mesh/sa/b";
  const outbound = `127.0.0.1:${listen}=127.0.0.1:${options.inboundPort}=${peer}`;
  const agent = await startWithBootstrap({ ...options, variables }, ["--outbound", outbound]);
  const url = `http://127.0.0.1:${listen}/`;
  const serves = async (): Promise<boolean> => (await statusOf(url)) === "200";
  await until("a first answer", serves);
  const first = await agent.proxyId();
  process.kill(first, "SIGKILL");
  await until("another Envoy", async () => (await agent.proxyId()) !== first);
  await until("an answer of it", serves);

  const kept = Array.from({ length: connections }, () => new KeptConnection(url));
  await Promise.all(kept.map(({ firstAnswer }) => firstAnswer));
  const ending = Promise.all(kept.map((connection) => connection.end));
  const code = await agent.end("SIGTERM");
  const told = (await ending).filter((each) => each === "told").length;
  if (code !== 0 || told !== connections) throw new Error(`exit code ${code}, ${told} were told`);
  return `Envoy killed and restarted; all told to close; it ended with the last connection`;
}

/** The end of a connection: Envoy said so in an answer, or closed it without a word. */
type End = "told" | "cut";

/** Starts `rampart agent run -- envoy` with what `rampart agent bootstrap` prints for these listeners. */
export async function startWithBootstrap(
  { envoy, folder, baseId, variables }: Omit<SupervisionOptions, "inboundPort">,
  listeners: readonly string[],
): Promise<AgentProcess> {
  const [admin = 0, status = 0] = await freePorts(2);
  const values = [...listeners, "--admin", `127.0.0.1:${admin}`];
  const file = join(folder, `bootstrap-${baseId}.json`);
  const options = { environment: variables };
  await writeFile(file, await runRampart(["agent", "bootstrap", ...values], options));
  const agent = new AgentProcess(folder, variables, status);
  const proxy = [envoy, "-c", file, "--base-id", String(baseId), "--concurrency", "1"];
  agent.start("--admin", `http://127.0.0.1:${admin}`, "--", ...proxy);
  return agent;
}

/** One connection with a request every half second, until it ends. */
class KeptConnection {
  readonly firstAnswer: Promise<void>;
  readonly end: Promise<End>;
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 1 });

  constructor(url: string) {
    const first = Promise.withResolvers<void>();
    this.firstAnswer = first.promise;
    this.end = this.#use(url, first.resolve);
  }

  async #use(url: string, onAnswer: () => void): Promise<End> {
    for (;;) {
      const answer = await this.#ask(url);
      if (answer !== "kept") return answer;
      onAnswer();
      // A socket that Envoy closes between two requests has left the pool: the next one would be new.
      await sleep(requestPauseMilliseconds);
      if (Object.keys(this.#agent.freeSockets).length === 0) return "cut";
    }
  }

  #ask(url: string): Promise<"kept" | End> {
    return new Promise((resolve) => {
      const request = get(url, { agent: this.#agent }, (response) => {
        const isTold = response.headers.connection === "close";
        response.resume();
        response.on("end", () => resolve(isTold ? "told" : "kept"));
        response.on("error", () => resolve("cut"));
      });
      request.on("error", () => resolve("cut"));
    });
  }
}
