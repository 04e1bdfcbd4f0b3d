import { Agent, get } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { type Outcome, shown } from "./outcome-table.ts";
import type { AgentProcess } from "./processes/agent-process.ts";
import { type SupervisionOptions, startSupervised } from "./supervision.ts";

const connections = 40;
const requestPauseMilliseconds = 500;

/** The end of a connection: Envoy said so in an answer, or closed it without a word. */
type End = "told" | "cut";

/** A way in which `rampart agent run -- envoy` is told to drain. */
interface Drain {
  readonly what: string;
  readonly variables: Readonly<Record<string, string>>;
  /** Tells it, and resolves when it has ended as it should. @returns What was seen besides the connections. */
  readonly end: (agent: AgentProcess) => Promise<string>;
}

const drains: readonly Drain[] = [
  {
    what: "SIGTERM",
    variables: { TERMINATION_DRAIN_DURATION_SECONDS: "3" },
    end: async (agent) => `exit code ${await endWell(agent)}`,
  },
  {
    what: "SIGTERM with EXIT_ON_ZERO_ACTIVE_CONNECTIONS",
    // A drain of a fixed time would last for an hour.
    variables: {
      TERMINATION_DRAIN_DURATION_SECONDS: "3600",
      EXIT_ON_ZERO_ACTIVE_CONNECTIONS: "true",
      MINIMUM_DRAIN_DURATION: "1s",
    },
    end: async (agent) => `ended with the last connection, exit code ${await endWell(agent)}`,
  },
];

async function endWell(agent: AgentProcess): Promise<number> {
  const code = await agent.end("SIGTERM");
  if (code !== 0) throw new Error(`it ended with ${code}`);
  return code;
}

/** Ends `rampart agent run -- envoy` under keep-alive connections in each way, and looks at the end of each connection. */
export async function drainScenes(options: SupervisionOptions): Promise<readonly Outcome[]> {
  const outcomes: Outcome[] = [];
  for (const [i, each] of drains.entries()) {
    const variables = { ...options.variables, ...each.variables };
    outcomes.push(await play(each, { ...options, variables, baseId: options.baseId + i }));
  }
  return outcomes;
}

async function play({ what, end }: Drain, options: SupervisionOptions): Promise<Outcome> {
  const names = {
    client: "Envoy 1.40.0",
    server: "rampart agent run -- envoy",
    what: `${what}, under ${connections} keep-alive connections with 2 requests/s each`,
  };
  return shown(names, async () => {
    const { agent, url } = await startSupervised(options);
    const kept = Array.from({ length: connections }, () => new KeptConnection(url));
    await Promise.all(kept.map(({ firstAnswer }) => firstAnswer));
    const ending = Promise.all(kept.map((connection) => connection.end));
    const seen = await end(agent);
    const ends = await ending;
    const told = ends.filter((each) => each === "told").length;
    const detail = `${told} of ${ends.length} told to close, ${ends.length - told} cut off; ${seen}`;
    if (told !== connections) throw new Error(detail);
    return detail;
  });
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
