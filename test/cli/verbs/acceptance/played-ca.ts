import { writeFile } from "node:fs/promises";
import { createServer as createTlsServer } from "node:https";
import { join } from "node:path";
import type { Fetch } from "../../../../src/foundation/fetch.ts";
import { NodeFetch } from "../../../../src/program/http/http-client.ts";
import { readerToken } from "../../../contract/log/log-values.ts";
import { toRequest } from "../../../testkit/agent/http-ca.ts";
import { serveCa } from "../../../testkit/ca/served-ca.ts";
import { createTokenKey, jwksOf, mintAccountToken } from "../../../testkit/callers/tokens.ts";
import { randomKek } from "../../../testkit/configuration.ts";
import { listenOnLoopback } from "../../../testkit/network/loopback.ts";
import { createTlsIdentity } from "../../../testkit/network/tls-identity.ts";
import { MemoryTerminal } from "../../../testkit/programs/memory-terminal.ts";
import { lastingFolder } from "../../../testkit/temporary-folder.ts";

/** What stands between callers and a CA: it answers a request itself, or passes it on and changes the answer. */
export type Between = (
  request: Request,
  pass: (changed: Request) => Promise<Response>,
) => Promise<Response>;

interface ReportedRow {
  readonly name: string;
  readonly verdict: string;
  readonly measured: string;
}

const issuer = "https://a.test";
const key = await createTokenKey("ES256", "k1");

/** A server before a CA, with a certificate of its own, which does to each exchange what a test says. */
async function startBetween() {
  const { key: cert, ca } = await createTlsIdentity();
  let between: Between = (request, pass) => pass(request);
  let upstream = { origin: "", fetch: undefined as Fetch | undefined };
  const pass = async (request: Request): Promise<Response> => {
    const { pathname, search } = new URL(request.url);
    const headers = Object.fromEntries(request.headers);
    for (const name of ["host", "connection", "content-length", "transfer-encoding"])
      delete headers[name];
    const body = request.method === "POST" ? await request.bytes() : null;
    const init = { method: request.method, headers, body };
    if (!upstream.fetch) throw new Error("no CA behind");
    return upstream.fetch(`${upstream.origin}${pathname}${search}`, init);
  };
  const server = createTlsServer({ key: cert, cert: ca }, async (incoming, outgoing) => {
    const response = await between(await toRequest(origin, incoming), pass);
    outgoing.writeHead(response.status, Object.fromEntries(response.headers));
    outgoing.end(await response.bytes());
  });
  const { host, close } = await listenOnLoopback(server);
  const origin = `https://${host}`;
  return {
    origin,
    ca,
    close,
    leadTo: (to: string, roots: string) => {
      upstream = { origin: to, fetch: NodeFetch.with({ ca: roots }) };
    },
    put: (chosen: Between) => {
      between = chosen;
    },
  };
}

export async function startPlayedCa(values: Readonly<Record<string, unknown>> = {}) {
  const between = await startBetween();
  const KEK = randomKek();
  const complete = {
    KEK,
    SERVING_NAMES: ["localhost"],
    CRL: "on",
    JWT_ISSUER: between.origin,
    ISSUERS: [{ issuer, jwks: jwksOf(key), jwt_audiences: ["*"] }],
    // Nothing changes the store, which need not be loaded for each call.
    PROPAGATION_INTERVAL: "10s",
    ...values,
  };
  const ca = await serveCa(complete, undefined, "nobody");
  const folder = await lastingFolder();
  const file = async (name: string, text: string): Promise<string> => {
    await writeFile(join(folder, name), text);
    return join(folder, name);
  };
  const direct = `https://localhost:${ca.port}`;
  const roots = await file("roots.pem", (await ca.bundle()) + between.ca);
  between.leadTo(direct, await ca.bundle());
  const token = await mintAccountToken(key, issuer, "foo:bar", new Date());
  const tokenFile = await file("token", token);
  const otherToken = await mintAccountToken(key, issuer, "foo:other", new Date());
  /** @param keys What somebody types at a terminal; without any, there is none. */
  const type = async (
    words: readonly string[],
    { clock, keys = "" }: { clock?: (() => Date) | undefined; keys?: string } = {},
  ) => {
    const environment = { RAMPART_LOG_TOKEN: readerToken, KEK };
    const options = { environment, isTTY: keys !== "", ...(clock && { clock }), keys };
    return MemoryTerminal.ran(
      ["acceptance", "--token-file", tokenFile, "--wait", "1s", ...words],
      options,
    );
  };
  return {
    token,
    otherToken,
    file,
    roots,
    direct,
    type,
    /** Plays through what a test puts in between. @returns The rows with this verdict, by name. */
    async playBehind(
      chosen: Between,
      words: readonly string[] = [],
      clock?: () => Date,
    ): Promise<ReadonlyMap<string, ReportedRow>> {
      between.put(chosen);
      const usual = ["--url", between.origin, "--for", "worker", "--json"];
      const trust = words.includes("--no-ca") ? [] : ["--ca", roots];
      const others = words.filter((word) => word !== "--no-ca");
      const terminal = await type([...usual, ...trust, ...others], { clock });
      const { rows } = JSON.parse(terminal.printed) as { rows: readonly ReportedRow[] };
      return new Map(rows.map((row) => [row.name, row]));
    },
    storeDirectory: ca.storeDirectory,
    end: async (): Promise<void> => {
      await between.close();
      await ca.end();
    },
  };
}
