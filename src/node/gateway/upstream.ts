import { Code, ConnectError } from "@connectrpc/connect";
import { codeFromHttpStatus, codeFromString } from "@connectrpc/connect/protocol-connect";
import * as z from "zod/mini";
import { jsonText } from "../../foundation/json-text.ts";
import { createHttpClient, parseTarget } from "../../host/http-client.ts";
import type { WholeAnswer } from "../../host/http-exchange.ts";
import { readRootFile } from "../../host/root-file.ts";
import { createCertificatePath } from "../../transport/http/routes.ts";

/** The CA behind a gateway. */
export interface Upstream {
  /**
   * The CA's answer to a message of `CreateCertificate`, both in protobuf.
   *
   * Rejects with a ConnectError for what the CA itself has said or the caller has ended, and with any
   * other error when the CA is away, or something between here and there answers in its place.
   */
  readonly createCertificate: (message: Uint8Array, call: UpstreamCall) => Promise<Uint8Array>;
  readonly close: () => void;
}

/** What goes with a message. */
export interface UpstreamCall {
  readonly headers: Readonly<Record<string, string>>;
  /** Aborted with the reason why nobody waits any more. */
  readonly signal?: AbortSignal;
  readonly timeoutMs?: number | undefined;
}

const contentType = "application/proto";
const maximumConnections = 256;
const maximumOctets = 256 * 1024;
/** No CA waits longer, and Connect has room for ten digits. */
const longestTimeoutMs = 1e9;

/** @param rootsFile PEM of the roots of its certificate, instead of the system's. */
export async function openUpstream(url: string, rootsFile: string | undefined): Promise<Upstream> {
  const roots = await readRootFile(rootsFile);
  const tls = roots === undefined ? {} : { ca: roots };
  const client = createHttpClient(tls, maximumConnections);
  const target = parseTarget(`${url}${createCertificatePath}`);
  return {
    createCertificate: async (message, { headers, signal, timeoutMs }) => {
      const answer = await client.send(
        {
          target,
          method: "POST",
          headers: { ...headers, ...connectHeaders(message.length, timeoutMs) },
          body: message,
          signal,
        },
        maximumOctets,
      );
      if (isMessage(answer)) return answer.octets;
      throw refusalIn(answer);
    },
    close: client.close,
  };
}

function connectHeaders(octets: number, timeoutMs: number | undefined): Record<string, string> {
  return {
    "content-type": contentType,
    "content-length": String(octets),
    "connect-protocol-version": "1",
    // A compressed message does not pass Cloudflare's edge (docs/design/platform.md#native-grpc).
    "accept-encoding": "identity",
    ...(timeoutMs !== undefined && {
      "connect-timeout-ms": String(Math.ceil(Math.min(timeoutMs, longestTimeoutMs))),
    }),
  };
}

function isMessage({ status, headers }: WholeAnswer): boolean {
  return status === 200 && headers["content-type"] === contentType;
}

/** What the CA itself may say to a caller. All else is no fault of the caller's, who may try again. */
const passedOn: ReadonlySet<Code> = new Set([
  Code.Unauthenticated,
  Code.PermissionDenied,
  Code.InvalidArgument,
  Code.ResourceExhausted,
  Code.DeadlineExceeded,
  Code.Canceled,
  Code.Internal,
]);

const errorForm = z.pipe(
  jsonText,
  z.object({ code: z.string(), message: z._default(z.string(), "refused") }),
);
const longestMessage = 512;

/** An error of Connect's, by its body or, where something else has answered, by its status alone. */
function refusalIn({ status, octets }: WholeAnswer): Error {
  const { data: said } = errorForm.safeParse(new TextDecoder().decode(octets));
  const code = codeFromString(said?.code ?? "") ?? codeFromHttpStatus(status);
  if (status === 200 || !passedOn.has(code)) return new Error(`the CA answers ${status}`);
  // No more than a trailer holds, and nothing that cannot be encoded for one.
  const message = said?.message.slice(0, longestMessage).toWellFormed();
  return new ConnectError(message ?? `refused with status ${status}`, code);
}
