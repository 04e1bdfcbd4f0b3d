import type { Fetch } from "../foundation/json-fetch.ts";
import type { Credential } from "./api-server.ts";

/** An answer of an API server that is not the wanted one. */
export class KubernetesError extends Error {
  override readonly name = "KubernetesError";
  readonly status: number;

  constructor(status: number, what: string) {
    super(`${what} answered with status ${status}`);
    this.status = status;
  }
}

/** The requests that watching and applying take. */
export interface KubernetesClient {
  readonly read: (path: string, signal: AbortSignal) => Promise<unknown>;
  /** One object of JSON a line, until the server or the signal ends it. */
  readonly watch: (path: string, signal: AbortSignal) => AsyncIterable<unknown>;
  /** Server-side apply, by this field owner, which takes over what others own; bounded in time. */
  readonly apply: (path: string, object: object, signal: AbortSignal) => Promise<unknown>;
}

const applyMilliseconds = 10_000;
const fieldOwner = "rampart-distribute";
const maximumLength = 16 * 1024 * 1024;

/** @param server No slash at the end. */
export function createKubernetesClient(
  server: string,
  credential: Credential,
  fetch: Fetch,
): KubernetesClient {
  async function send(path: string, init: RequestInit): Promise<Response> {
    const headers = { accept: "application/json", authorization: `Bearer ${await credential()}` };
    const response = await fetch(`${server}${path}`, {
      redirect: "manual",
      ...init,
      headers: { ...headers, ...(init.headers as Record<string, string> | undefined) },
    });
    if (response.ok) return response;
    await response.body?.cancel();
    throw new KubernetesError(response.status, `${init.method ?? "GET"} ${path.split("?")[0]}`);
  }

  return {
    read: async (path, signal) => parseAll(linesOf(await send(path, { signal }))),
    watch: async function* (path, signal) {
      for await (const line of linesOf(await send(path, { signal }))) yield JSON.parse(line);
    },
    apply: async (path, object, signal) => {
      const response = await send(`${path}?fieldManager=${fieldOwner}&force=true`, {
        method: "PATCH",
        headers: { "content-type": "application/apply-patch+yaml" },
        body: JSON.stringify(object),
        signal: AbortSignal.any([signal, AbortSignal.timeout(applyMilliseconds)]),
      });
      return parseAll(linesOf(response));
    },
  };
}

async function parseAll(lines: AsyncIterable<string>): Promise<unknown> {
  let text = "";
  for await (const line of lines) {
    text += `${line}\n`;
    if (text.length > maximumLength) throw new Error("the API server answered too much");
  }
  return JSON.parse(text);
}

async function* linesOf({ body }: Response): AsyncGenerator<string> {
  const decoder = new TextDecoder("utf-8", { fatal: true });
  let rest = "";
  for await (const chunk of body ?? []) {
    const [first = "", ...others] = decoder.decode(chunk, { stream: true }).split("\n");
    rest += first;
    if (rest.length > maximumLength) throw new Error("the API server answered too much");
    for (const next of others) {
      if (rest !== "") yield rest;
      rest = next;
    }
  }
  if (rest !== "") yield rest;
}
