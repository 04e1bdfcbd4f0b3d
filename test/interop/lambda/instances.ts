import { randomUUID } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { join } from "node:path";
import { Semaphore } from "../../../src/foundation/shared-work.ts";
import { listenOnLoopback } from "../../testkit/network/loopback.ts";
import { type Child, startChild } from "../../testkit/programs/child-process.ts";

/** What the handler answered, or how it failed. */
export type Outcome = { readonly answer: unknown } | { readonly errorMessage: string };

/** A function with as many instances as it has requests at once, each of which has one at a time. */
export type LambdaFunction = Awaited<ReturnType<typeof startFunction>>;

const program = join(import.meta.dirname, "runtime-client.mjs");

/** One instance, and its runtime API: next, response and error. */
class Instance {
  readonly child: Child;
  readonly #close: () => Promise<void>;
  #next: ServerResponse | undefined;
  #waiting: { readonly event: object; readonly settle: (outcome: Outcome) => void } | undefined;
  isIdle = true;

  private constructor(child: Child, close: () => Promise<void>) {
    this.child = child;
    this.#close = close;
  }

  static async start(folder: string, environment: NodeJS.ProcessEnv): Promise<Instance> {
    let instance: Instance | undefined;
    const server = createServer((request, response) => void instance?.answer(request, response));
    const { host, close } = await listenOnLoopback(server);
    const variables = { AWS_LAMBDA_RUNTIME_API: host, LAMBDA_TASK_ROOT: folder };
    const child = startChild(process.execPath, [program], {
      environment: { ...environment, ...variables },
    });
    instance = new Instance(child, close);
    return instance;
  }

  async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (request.url?.endsWith("/invocation/next")) {
      this.#next = response;
      this.#handOver();
      return;
    }
    const text = await textOf(request);
    response.writeHead(202).end("{}");
    const settle = this.#waiting?.settle;
    this.#waiting = undefined;
    const answer = JSON.parse(text);
    settle?.(request.url?.endsWith("/error") ? answer : { answer });
  }

  invoke(event: object): Promise<Outcome> {
    this.isIdle = false;
    const { promise, resolve } = Promise.withResolvers<Outcome>();
    this.#waiting = { event, settle: resolve };
    this.#handOver();
    void this.child.ended.then(() => resolve({ errorMessage: "the instance has ended" }));
    return promise.finally(() => {
      this.isIdle = true;
    });
  }

  async end(): Promise<void> {
    await this.child.end("SIGKILL");
    await this.#close();
  }

  #handOver(): void {
    if (!this.#next || !this.#waiting) return;
    const headers = { "lambda-runtime-aws-request-id": randomUUID() };
    this.#next.writeHead(200, headers).end(JSON.stringify(this.#waiting.event));
    this.#next = undefined;
  }
}

async function textOf(stream: IncomingMessage): Promise<string> {
  return (await octetsOf(stream)).toString();
}

async function octetsOf(stream: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of stream) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

/** Reserved concurrency: the machine of a gate starts no more at once in the time of a call. */
const maximumInstances = 6;

/** @param folder The code of the function, with its configuration. */
export async function startFunction(folder: string, environment: NodeJS.ProcessEnv) {
  const all: Instance[] = [];
  const gone: Instance[] = [];
  const places = new Semaphore(maximumInstances);
  const invoke = (event: object): Promise<Outcome> => places.run(() => invokeIdle(event));
  const invokeIdle = async (event: object): Promise<Outcome> => {
    let instance = all.find(({ isIdle }) => isIdle);
    if (!instance) {
      instance = await Instance.start(folder, environment);
      all.push(instance);
    }
    return instance.invoke(event);
  };
  const front = createServer((request, response) => void answerByUrl(invoke, request, response));
  const { host, close } = await listenOnLoopback(front);
  const kill = async (): Promise<void> => {
    const killed = all.splice(0);
    gone.push(...killed);
    await Promise.all(killed.map((each) => each.end()));
  };
  return {
    invoke,
    /** Kills every instance, as the platform may between two requests or within one. */
    kill,
    /** Invokes it by a URL, as a function URL does. */
    origin: `http://${host}`,
    lines: () => [...gone, ...all].flatMap(({ child }) => child.lines),
    end: async () => {
      await kill();
      await close();
    },
  };
}

async function answerByUrl(
  invoke: (event: object) => Promise<Outcome>,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const [rawPath = "/", rawQueryString = ""] = (request.url ?? "/").split("?");
  const body = await octetsOf(request);
  const headers = Object.entries(request.headers).map(([name, value]) => [name, String(value)]);
  // A function URL and an HTTP API tell text from octets by this field.
  const isText = /^(?:text\/|application\/json\b)/.test(request.headers["content-type"] ?? "");
  const outcome = await invoke({
    version: "2.0",
    rawPath,
    rawQueryString,
    isBase64Encoded: !isText,
    headers: Object.fromEntries(headers),
    requestContext: {
      domainName: request.headers.host ?? "",
      http: { method: request.method ?? "GET", sourceIp: "192.0.2.1" },
    },
    ...(body.length > 0 && { body: body.toString(isText ? "utf8" : "base64") }),
  });
  // As a function URL answers for a handler that has failed.
  if (!("answer" in outcome)) return void response.writeHead(502).end("Internal Server Error");
  const answer = outcome.answer as {
    statusCode: number;
    headers: Record<string, string>;
    body: string;
  };
  response.writeHead(answer.statusCode, answer.headers).end(Buffer.from(answer.body, "base64"));
}

/** As a schedule of EventBridge calls. */
export const scheduledEvent = {
  version: "0",
  id: randomUUID(),
  source: "aws.events",
  "detail-type": "Scheduled Event",
  account: "123456789012",
  region: "us-east-1",
  resources: [],
  detail: {},
};
