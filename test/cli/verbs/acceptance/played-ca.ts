import { writeFile } from "node:fs/promises";
import { createServer as createTlsServer } from "node:https";
import { join } from "node:path";
import type { Fetch } from "../../../../src/foundation/fetch.ts";
import { NodeFetch } from "../../../../src/program/http/http-client.ts";
import { toRequest } from "../../../testkit/agent/http-ca.ts";
import { foundEarlier, serveCa } from "../../../testkit/ca/served-ca.ts";
import { createTokenKey, jwksOf, mintAccountToken } from "../../../testkit/callers/tokens.ts";
import { randomKek } from "../../../testkit/configuration.ts";
import { listenOnLoopback } from "../../../testkit/network/loopback.ts";
import { createTlsIdentity } from "../../../testkit/network/tls-identity.ts";
import { MemoryTerminal } from "../../../testkit/programs/memory-terminal.ts";
import { serveToml } from "../../../testkit/programs/rampart-process.ts";
import { lastingFolder } from "../../../testkit/temporary-folder.ts";

/** What stands between callers and a CA: it answers a request itself, or passes it on and changes the answer. */
export type Between = (
  request: Request,
  pass: (changed: Request) => Promise<Response>,
) => Promise<Response>;

/** Nothing in between. */
const passing: Between = (request, pass) => pass(request);

interface ReportedRow {
  readonly name: string;
  readonly verdict: string;
  readonly measured: string;
}

type TypingOptions = NonNullable<Parameters<typeof MemoryTerminal.ran>[1]>;

const issuer = "https://a.test";
const key = await createTokenKey("ES256", "k1");

/** A server before a CA, with a certificate of its own, which does to each exchange what a test says. */
async function startBetween() {
  const { key: cert, ca } = await createTlsIdentity();
  let between = passing;
  let upstream = { origin: "", fetch: undefined as Fetch | undefined };
  const pass = async (request: Request): Promise<Response> => {
    const { pathname, search } = new URL(request.url);
    const { prefer, ...headers } = Object.fromEntries(request.headers);
    for (const name of ["host", "connection", "content-length", "transfer-encoding"])
      delete headers[name];
    const body = request.method === "POST" ? await request.bytes() : null;
    const init = { method: request.method, headers, body };
    if (!upstream.fetch) throw new Error("no CA behind");
    const response = await upstream.fetch(`${upstream.origin}${pathname}${search}`, init);
    // A long poll is answered at once, as at the end of its wait.
    if (prefer) response.headers.set("preference-applied", prefer);
    return response;
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

export async function startPlayedCa(
  values: Readonly<Record<string, unknown>> = {},
  secrets: Readonly<Record<string, string>> = {},
) {
  const between = await startBetween();
  const environment = { KEK: randomKek(), ...secrets };
  const folder = await lastingFolder();
  const file = async (name: string, text: string): Promise<string> => {
    await writeFile(join(folder, name), text);
    return join(folder, name);
  };
  const keys = {
    STORE_DIRECTORY: join(folder, "store"),
    SERVING_NAMES: ["localhost"],
    CRL: "on",
    JWT_ISSUER: between.origin,
    ISSUERS: [{ issuer, jwks: jwksOf(key), jwt_audiences: ["*"] }],
    // Nothing changes the store, which need not be loaded for each call.
    PROPAGATION_INTERVAL: "10s",
    ...values,
  };
  const config = await file("rampart.toml", serveToml(keys.STORE_DIRECTORY, keys));
  await foundEarlier({ ...keys, ...environment });
  const ca = await serveCa({ ...keys, ...environment }, undefined, "nobody");
  const roots = await file("roots.pem", (await ca.bundle()) + between.ca);
  between.leadTo(`https://localhost:${ca.port}`, await ca.bundle());
  const token = await mintAccountToken(key, issuer, "foo:bar", new Date());
  const tokenFile = await file("token", token);
  const usual = [
    ...["acceptance", "--url", between.origin, "--ca", roots, "--token-file", tokenFile],
    ...["--for", "worker", "--wait", "5s"],
  ];
  /** Plays through what stands in between. @param words Options, of which the last of a name counts. */
  const type = (
    words: readonly string[],
    { environment: others, ...options }: TypingOptions = {},
  ) =>
    MemoryTerminal.ran([...usual, ...words], {
      ...options,
      environment: { ...environment, ...others },
      isTTY: options.keys !== undefined,
    });
  return {
    roots,
    token,
    otherToken: await mintAccountToken(key, issuer, "foo:other", new Date()),
    tokenFile,
    file,
    config,
    type,
    /** Plays through what a test puts in between. @returns The rows by name. */
    async playBehind(
      chosen: Between,
      words: readonly string[] = [],
      options?: TypingOptions,
    ): Promise<ReadonlyMap<string, ReportedRow>> {
      between.put(chosen);
      const { printed } = await type([...words, "--json"], options);
      between.put(passing);
      const { rows } = JSON.parse(printed) as { rows: readonly ReportedRow[] };
      return new Map(rows.map((row) => [row.name, row]));
    },
    end: async (): Promise<void> => {
      await between.close();
      await ca.end();
    },
  };
}
