import { Agent, get } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import type { Outcome } from "./outcome-table.ts";
import { type SupervisionOptions, startSupervised } from "./supervision.ts";

const connections = 40;
const requestPauseMilliseconds = 500;

/** The end of a connection: Envoy said so in an answer, or closed it without a word. */
type End = "told" | "cut";

/** Ends `rampart agent run -- envoy` under keep-alive connections, and looks at the end of each. */
export async function drain(options: SupervisionOptions): Promise<Outcome> {
  const names = {
    client: "Envoy 1.40.0",
    server: "rampart agent run -- envoy",
    what: `SIGTERM under ${connections} keep-alive connections with 2 requests/s each`,
  };
  try {
    const ends = await endsOfConnections(options);
    const told = ends.filter((end) => end === "told").length;
    const detail = `${told} of ${ends.length} told to close, ${ends.length - told} cut off`;
    return { ...names, result: told === connections ? "ok" : "FAILED", detail };
  } catch (error) {
    return { ...names, result: "FAILED", detail: String(error) };
  }
}

async function endsOfConnections(options: SupervisionOptions): Promise<readonly End[]> {
  const { agent, url } = await startSupervised(options);
  const served: Promise<unknown>[] = [];
  const ends = Array.from({ length: connections }, () => {
    const connection = new KeptConnection(url);
    served.push(connection.firstAnswer);
    return connection.end;
  });
  await Promise.all(served);
  const ended = agent.end("SIGTERM");
  const result = await Promise.all(ends);
  await ended;
  return result;
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
