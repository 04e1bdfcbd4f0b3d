import { writeFile } from "node:fs/promises";
import { createServer, type IncomingMessage } from "node:http";
import { join } from "node:path";
import { revokeCertificates } from "../ca/revoke-certificates.ts";
import { startCa } from "../ca/running-ca.ts";
import { createTokenKey, jwksOf, mintAccountToken } from "../callers/tokens.ts";
import { listenOnLoopback } from "../network/loopback.ts";
import { lastingFolder } from "../temporary-folder.ts";

const issuer = "https://cluster.test";

/** The real CA behind an HTTP server on the loopback address, with the real clock. */
export type HttpCa = Awaited<ReturnType<typeof startHttpCa>>;

/**
 * @param values Keys of the CA's configuration. The others have values that work.
 * @param hasNoNamesake Whether its bundle has its own roots alone, and none of another CA of the same name.
 */
export async function startHttpCa(
  values: Readonly<Record<string, unknown>> = {},
  table: Readonly<Record<string, unknown>> = {},
  hasNoNamesake = false,
) {
  const key = await createTokenKey("ES256", "key-1");
  const clock = (): Date => new Date();
  const ISSUERS = [{ issuer, jwks: jwksOf(key), ...table }];
  const ca = await startCa({ ISSUERS, ...values }, { clock, hasNoNamesake });
  await ca.found();
  const folder = await lastingFolder();
  const server = createServer(async (request, response) => {
    const answered = await ca.app.fetch(await toRequest("http://ca.test", request));
    response.writeHead(answered.status, Object.fromEntries(answered.headers));
    response.end(Buffer.from(await answered.arrayBuffer()));
  });
  const { host, close } = await listenOnLoopback(server);
  return {
    url: `http://${host}`,
    mint: ca.mint,
    /** Writes a file with a token for this account (`ns:name`), with white space around it. */
    tokenFile: async (account: string): Promise<string> => {
      const file = join(folder, account.replace(":", "-"));
      await writeFile(file, ` ${await mintAccountToken(key, issuer, account, clock())}\n`);
      return file;
    },
    /** Runs the cron. */
    cron: ca.rotate,
    /** Revokes certificates of the signing authority, by their serial numbers in hexadecimal. */
    revoke: (...serialNumbers: string[]) => revokeCertificates(ca, serialNumbers, clock()),
    close,
  };
}

/** The request of a server of Node, as that of a platform's fetch. */
export async function toRequest(origin: string, incoming: IncomingMessage): Promise<Request> {
  const chunks: Uint8Array[] = await Array.fromAsync(incoming);
  const { method = "", url = "", headers } = incoming;
  return new Request(new URL(url, origin), {
    method,
    headers: headers as Record<string, string>,
    ...(method === "POST" && { body: Buffer.concat(chunks) }),
  });
}
