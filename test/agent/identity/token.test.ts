import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { expect, onTestFinished, test } from "vitest";
import type { TokenSource } from "../../../src/agent/configuration/token-source.ts";
import { readToken } from "../../../src/agent/identity/token.ts";
import { messageOf, OperatorError } from "../../../src/foundation/errors.ts";
import type { TokenEndpoint } from "../../../src/foundation/token-endpoint.ts";
import { listenOnLoopback } from "../../testkit/network/loopback.ts";

const never = new AbortController().signal;
const secret = "eyJ.secret.sig";

/** A played endpoint. */
async function play(
  answer: (request: IncomingMessage, response: ServerResponse) => void,
  member?: string,
): Promise<TokenEndpoint> {
  const { host, close } = await listenOnLoopback(createServer(answer));
  onTestFinished(close);
  const headers = { metadata: "true", authorization: "Bearer pass-of-the-job" };
  return { kind: "endpoint", name: "the endpoint", url: `http://${host}/t?a=b`, headers, member };
}

const command = (script: string): TokenSource => ({
  kind: "command",
  argv: [process.execPath, "-e", script],
});

async function faultOf(source: TokenSource, signal = never, timeout?: number): Promise<string> {
  const error = await readToken(source, signal, timeout).then(
    (token) => Promise.reject(new Error(`took ${token}`)),
    (fault: unknown) => fault,
  );
  const shown = JSON.stringify(error, Object.getOwnPropertyNames(error)) + String(error);
  expect(shown).not.toMatch(/secret|pass-of-the-job/);
  return messageOf(error);
}

test("asks anew for each call, with the headers of the endpoint, and takes the token out of JSON", async () => {
  let calls = 0;
  const source = await play(({ method, url, headers }, response) =>
    response.end(
      `${method}.${url}.${headers["metadata"]}.${headers.authorization?.length}.${++calls}\n`,
    ),
  );
  expect(await readToken(source, never)).toBe("GET./t?a=b.true.22.1");
  expect(await readToken(source, never)).toBe("GET./t?a=b.true.22.2");
  const json = await play((_, response) => response.end(`{"a":1,"value":"${secret}"}`), "value");
  expect(await readToken(json, never)).toBe(secret);
});

test.each<[string, string | undefined, number, string, string]>([
  ["another status", undefined, 403, secret, "answered with status 403"],
  ["a redirect", undefined, 302, secret, "answered with status 302"],
  ["nothing", undefined, 200, "", "answered without a token"],
  ["two lines", undefined, 200, `${secret}\n${secret}`, "answered without a token"],
  ["a page", undefined, 200, "<html> secret", "answered without a token"],
  ["too much", undefined, 200, "a".repeat(40_000), "answered too much"],
  ["a token beyond any header", undefined, 200, "a".repeat(16_385), "answered without a token"],
  ["no JSON", "value", 200, secret, "did not answer JSON in UTF-8 with one spelling"],
  ["a member twice", "value", 200, '{"value":"secret","value":"b"}', "did not answer JSON"],
  ["another member", "value", 200, '{"access_token":"secret"}', "answered without a token"],
  ["a number", "value", 200, '{"value":1}', "answered without a token"],
  ["a list", "value", 200, '["secret"]', "answered without a token"],
])("refuses %s", async (_, member, status, body, fault) => {
  const location = { location: "/secret" };
  const answer = (_: unknown, response: ServerResponse) => {
    response.writeHead(status, status === 302 ? location : {}).end(body);
  };
  expect(await faultOf(await play(answer, member))).toContain(`no token: the endpoint ${fault}`);
});

test("waits only for so long, and no longer than the call", async () => {
  const source = await play(() => undefined);
  expect(await faultOf(source, never, 50)).toContain("no token: the endpoint did not answer");
  expect(await faultOf(source, AbortSignal.abort())).toContain(
    "did not answer (This operation was aborted)",
  );
  const broken = await play((_, response) => void response.write("ey"));
  // A slow machine sees no octet of the answer by then.
  const late = /^no token: the endpoint (?:broke off its answer|did not answer)/;
  expect(await faultOf(broken, never, 50)).toMatch(late);
});

test("says that no endpoint is there", async () => {
  const { host, close } = await listenOnLoopback(createServer());
  await close();
  const source = { ...(await play(() => undefined)), url: `http://${host}/` };
  expect(await faultOf(source)).toBe("no token: the endpoint did not answer (ECONNREFUSED)");
});

test("a command prints the token, and no shell reads its arguments", async () => {
  const script = "console.log('a.' + process.argv[1] + '.c')";
  const source = { kind: "command", argv: [process.execPath, "-e", script, "$HOME;ls"] } as const;
  expect(await readToken(source, never)).toBe("a.$HOME;ls.c");
});

test.each([
  ["failed with 3", "console.error('secret'); console.log('secret'); process.exit(3)"],
  ["failed with a signal", "process.kill(process.pid, 'SIGTERM')"],
  ["printed no token", "console.error('secret')"],
  ["printed no token", "console.log('secret of two words')"],
  [
    "printed more than 32768 octets",
    "process.stdout.write('secret'.repeat(10000)); setInterval(() => {}, 1000)",
  ],
])("of a command says that it %s", async (fault, script) => {
  expect(await faultOf(command(script), never, 60_000)).toContain(`${process.execPath} ${fault}`);
});

test("ends a command that does not end, and that of an ended call", async () => {
  const stubborn = ["sh", "-c", "trap '' TERM; exec sleep 1000 # secret"];
  const endless: TokenSource = { kind: "command", argv: stubborn };
  expect(await faultOf(endless, never, 50)).toContain("did not end within 0.05 s");
  expect(await faultOf(endless, AbortSignal.abort())).toContain("was stopped with the call");
  const missing: TokenSource = { kind: "command", argv: ["/nowhere/token", "secret"] };
  expect(await faultOf(missing)).toBe("no token: the command /nowhere/token cannot be run: ENOENT");
});

test("takes the token of a function, and waits no longer for it than for others", async () => {
  const kind = "function";
  expect(await readToken({ kind, obtain: async () => secret }, never)).toBe(secret);
  const obtain = () => Promise.reject(new OperatorError("AWS refuses"));
  expect(await faultOf({ kind, obtain })).toBe("no token: AWS refuses");
  const silent = { kind, obtain: () => new Promise<string>(() => undefined) } as const;
  expect(await faultOf(silent, never, 1)).toContain("no token: AWS did not answer");
  expect(await faultOf(silent, AbortSignal.abort())).toContain("no token: AWS did not answer");
});
