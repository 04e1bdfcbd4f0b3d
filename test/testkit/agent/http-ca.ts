import { writeFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import type { Hono } from "hono";
import { foundIfEmpty, Rotation } from "../../../src/ca/rotation/rotate.ts";
import { Composition } from "../../../src/config/composition.ts";
import { Configuration } from "../../../src/config/configuration.ts";
import type { Departure } from "../../../src/pki/authority/new-taint.ts";
import { webCryptoProvider } from "../../../src/pki/web-crypto.ts";
import { CaRoutes } from "../../../src/transport/http/routes.ts";
import { createMemoryStore, type MemoryStore } from "../ca/memory-store.ts";
import { addNamesake, changesOfNamesake } from "../ca/namesake.ts";
import { revokeCertificates } from "../ca/revoke-certificates.ts";
import { createTokenKey, jwksOf, mintAccountToken } from "../callers/tokens.ts";
import { randomKek, withTenantBeside } from "../configuration.ts";
import { createEventRecorder, type EventRecorder } from "../log/event-recorder.ts";
import { freePorts } from "../network/free-ports.ts";
import { noFetching } from "../network/no-fetching.ts";
import { lastingFolder } from "../temporary-folder.ts";
import { taintSigner } from "./taint-signer.ts";

/** The real CA behind an HTTP server on the loopback address, with the real clock. */
export interface HttpCa {
  readonly url: string;
  readonly store: MemoryStore;
  readonly mint: Composition["mint"];
  readonly log: EventRecorder;
  /** Writes a file with a token for this account (`ns:name`), with white space around it. */
  readonly tokenFile: (account: string) => Promise<string>;
  /** Runs the cron. */
  readonly cron: () => Promise<void>;
  /** Taints the signing authority. */
  readonly taint: (departure: Departure) => Promise<string>;
  /** Revokes certificates of the signing authority, by their serial numbers in hexadecimal. */
  readonly revoke: (...serialNumbers: string[]) => Promise<void>;
  /** While it is set, it answers in place of the CA. */
  intercept: ((request: IncomingMessage, response: ServerResponse) => void) | undefined;
  /** Cuts every connection and stops listening. */
  readonly pause: () => Promise<void>;
  readonly resume: () => Promise<void>;
  readonly close: () => Promise<void>;
}

const issuer = "https://cluster.test";

/**
 * @param values Keys of the CA's configuration. The others have values that work.
 * @param hasNoNamesake Whether its bundle has its own roots alone, and none of another CA of the same name.
 */
export async function startHttpCa(
  values: Readonly<Record<string, unknown>> = {},
  table: Readonly<Record<string, unknown>> = {},
  hasNoNamesake = false,
): Promise<HttpCa> {
  const tokenKey = await createTokenKey("ES256", "key-1");
  const store = createMemoryStore();
  const log = createEventRecorder();
  const clock = (): Date => new Date();
  const configuration = Configuration.parse({
    ISSUERS: withTenantBeside([{ issuer, jwks: jwksOf(tokenKey), ...table }]),
    KEK: randomKek(),
    INCEPTION_DATE: clock().toISOString().slice(0, 10),
    PROPAGATION_INTERVAL: "0s",
    ...values,
  });
  const composition = await Composition.compose(configuration, {
    store,
    fetching: noFetching,
    cryptoProvider: webCryptoProvider,
    log,
    clock,
  });
  const { certificateAuthority, mint } = composition;
  await foundIfEmpty(mint, clock());
  if (!hasNoNamesake) {
    await addNamesake(mint, clock());
    store.everyOther = await changesOfNamesake(mint, clock());
  }
  const app = CaRoutes.create(certificateAuthority);
  const folder = await lastingFolder();
  const server = createServer((request, response) => {
    if (ca.intercept) ca.intercept(request, response);
    else answer(app, request, response).catch((error: Error) => response.destroy(error));
  });
  const listen = (port: number): Promise<void> =>
    new Promise((resolve) => server.listen(port, "127.0.0.1", resolve));
  const pause = (): Promise<void> =>
    new Promise((resolve) => {
      server.close(() => resolve());
      server.closeAllConnections();
    });
  // It comes back to its port, which nobody else gets in a pause.
  const [port = 0] = await freePorts(1);
  await listen(port);
  const ca: HttpCa = {
    url: `http://127.0.0.1:${port}`,
    store,
    mint,
    log,
    tokenFile: async (account) => {
      const token = await mintAccountToken(tokenKey, issuer, account, clock());
      const file = join(folder, account.replace(":", "-"));
      await writeFile(file, ` ${token}\n`);
      return file;
    },
    cron: () => Rotation.rotate(mint, clock()),
    taint: (departure) => taintSigner(composition, departure, clock()),
    revoke: (...serialNumbers) => revokeCertificates(composition, serialNumbers, clock()),
    intercept: undefined,
    pause,
    resume: () => listen(port),
    async close() {
      if (server.listening) await pause();
    },
  };
  return ca;
}

async function answer(app: Hono, request: IncomingMessage, response: ServerResponse) {
  const body = request.method === "POST" ? new Uint8Array(await buffer(request)) : undefined;
  const headers = new Headers(request.headers as Record<string, string>);
  const url = new URL(request.url ?? "/", "http://ca.test");
  const init = { method: request.method ?? "GET", headers, ...(body && { body }) };
  const answered = await app.fetch(new Request(url, init));
  response.writeHead(answered.status, Object.fromEntries(answered.headers));
  response.end(Buffer.from(await answered.arrayBuffer()));
}
