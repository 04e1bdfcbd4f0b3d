import { Code, ConnectError } from "@connectrpc/connect";
import type { UniversalHandler } from "@connectrpc/connect/protocol";
import type { EventLog } from "../ca/issuance/event-log.ts";
import { CaError } from "../foundation/errors.ts";
import { Base64 } from "../pki/encoding/base64.ts";
import { LogSearchError } from "../status/log-search-error.ts";
import type { Status } from "../status/status.ts";
import { toConnectError } from "../transport/rpc/connect-error.ts";
import { isFromElsewhere, type OperatorGuard } from "./operator-guard.ts";
import type { Markup } from "./page/format.ts";
import { logEntries } from "./page/issuance.ts";
import { mark, page, style } from "./page/page.ts";
import { createStatusHandlers } from "./status-service.ts";

/** The script of the page, which updates it. */
export interface ConsoleScript {
  /** The path, below `/console/`, with a digest of the script in it. */
  readonly path: string;
  /** The digest for Subresource Integrity: `sha256-…`. */
  readonly integrity: string;
  readonly answer: (request: Request) => Response | Promise<Response>;
}

/** Describes the script of a console. */
export const ConsoleScript = {
  /** The headers of the script's response. A browser may cache it for ever, because the path has its digest. */
  headers: {
    "content-type": "text/javascript; charset=utf-8",
    "x-content-type-options": "nosniff",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "private, max-age=31536000, immutable",
  } satisfies Readonly<Record<string, string>>,
};

/** What the console shows, and who may see it. */
export interface ConsoleParts {
  readonly status: Status;
  readonly guard: OperatorGuard;
  readonly clock: () => Date;
  readonly log: EventLog;
  /** Absent if the page does not update itself. */
  readonly script?: ConsoleScript | undefined;
  /** Changes the words of a command so that it acts on the CA at this URL; absent if no change is needed. */
  readonly wordsFor?: (words: string, at: URL) => string;
  /** Whether the platform can send trailers, which native gRPC needs. */
  readonly hasTrailers: boolean;
}

/** The page of a CA and the service behind it. */
export interface Console {
  /** Answers `/` and what is below `/console/`, also callers that the guard refuses; `undefined` for every other path. */
  readonly answer: (request: Request) => Promise<Response | undefined>;
  /** The RPCs of the status service, behind the same guard. */
  readonly handlers: readonly UniversalHandler[];
}

/** Creates consoles. */
export const Console = {
  /** Creates a console, which reads nothing of the CA for a caller that the guard refuses. */
  create(parts: ConsoleParts): Console {
    const { status, guard, clock, log, hasTrailers } = parts;

    async function admit(headers: Headers): Promise<void> {
      try {
        await guard.require(headers, clock());
      } catch (error) {
        if (error instanceof CaError) logRefusal(log, error);
        throw error;
      }
    }

    async function admitCall(headers: Headers): Promise<void> {
      if (isFromElsewhere(headers)) throw new ConnectError(elsewhere, Code.PermissionDenied);
      await admit(headers).catch((error: unknown) => {
        throw error instanceof CaError ? toConnectError(error.refusal, clock()) : error;
      });
    }

    async function answerAdmitted(request: Request): Promise<Response> {
      if (isFromElsewhere(request.headers)) return sentence(403, elsewhere);
      try {
        await admit(request.headers);
      } catch (error) {
        if (error instanceof CaError) return refuse(error, guard);
        throw error;
      }
      return route(request, parts);
    }

    return {
      answer: async (request) => {
        const { pathname } = new URL(request.url);
        if (pathname !== "/" && !pathname.startsWith("/console/")) return undefined;
        const response = await answerAdmitted(request);
        return request.method === "HEAD" ? new Response(null, response) : response;
      },
      handlers: createStatusHandlers({ status, clock, hasTrailers, admit: admitCall }),
    };
  },
};

const elsewhere = "pages of other sites may not ask this";

async function route(request: Request, parts: ConsoleParts): Promise<Response> {
  const { status, clock, script, wordsFor } = parts;
  if (request.method !== "GET" && request.method !== "HEAD") {
    return sentence(405, "the console only shows", { allow: "GET, HEAD" });
  }
  const url = new URL(request.url);
  const { pathname, searchParams } = url;
  if (pathname === "/console/icon.svg") return answerIcon();
  if (script && pathname === script.path) return script.answer(request);
  if (pathname !== "/") return sentence(404, "not found");
  const query = (searchParams.get("q") ?? "").slice(0, 256);
  const now = clock();
  const [current, logResults] = [await status.at(now), await entriesOf(status, query, now)];
  const typed = (words: string): string => wordsFor?.(words, url) ?? words;
  const content = { status: current, query, logResults, script, typed };
  return answerPage(String(await page(content)), script !== undefined);
}

async function entriesOf(
  { searchLog }: Status,
  query: string,
  now: Date,
): Promise<Markup | string> {
  if (!searchLog) return "";
  try {
    return logEntries(await searchLog({ query, limit: 0, now }), now);
  } catch (error) {
    if (error instanceof LogSearchError) return error.message;
    throw error;
  }
}

function logRefusal({ operation }: EventLog, { message, refusal }: CaError): void {
  // A browser's first request never has a credential.
  if (refusal.reason === "credential-missing") return;
  operation({
    event: "console-refused",
    level: "warning",
    detail: message,
    ...("check" in refusal && { check: refusal.check }),
  });
}

function refuse({ refusal }: CaError, guard: OperatorGuard): Response {
  switch (refusal.reason) {
    case "credential-missing":
    case "credential-rejected":
      return guard.asksForToken
        ? sentence(401, guard.sentence, { "www-authenticate": challenge })
        : sentence(403, guard.sentence);
    default:
      return sentence(503, "the credential cannot be verified now", { "retry-after": "5" });
  }
}

const challenge = 'Basic realm="Rampart", charset="UTF-8"';

const everywhere = {
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
  "cross-origin-resource-policy": "same-origin",
};

/** Creates a response with one sentence, as text. */
export function sentence(
  status: number,
  text: string,
  headers: Readonly<Record<string, string>> = {},
): Response {
  return new Response(`${text}\n`, {
    status,
    headers: {
      ...everywhere,
      "content-type": "text/plain; charset=utf-8",
      "cache-control": "no-store",
      ...headers,
    },
  });
}

/** Creates a response with a page that may not be cached or framed, and loads nothing from elsewhere. */
export async function answerPage(body: string, hasScript: boolean): Promise<Response> {
  return new Response(body, {
    headers: {
      ...everywhere,
      "content-type": "text/html; charset=utf-8",
      "content-security-policy": await policy(hasScript),
      "cache-control": "no-store",
      "cross-origin-opener-policy": "same-origin",
      "x-frame-options": "DENY",
    },
  });
}

let styleDigest: string | undefined;

async function policy(hasScript: boolean): Promise<string> {
  styleDigest ??= Base64.format(
    new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(style))),
  );
  return [
    "default-src 'none'",
    `style-src 'sha256-${styleDigest}'`,
    "img-src 'self'",
    ...(hasScript
      ? [
          "script-src 'self'",
          "connect-src 'self'",
          "require-trusted-types-for 'script'",
          "trusted-types rampart",
        ]
      : []),
    "form-action 'self'",
    "base-uri 'none'",
    "frame-ancestors 'none'",
  ].join("; ");
}

const icon = mark
  .replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" color="#0b6472" ')
  .replace(' aria-hidden="true"', "");

/** Creates the response with the icon of the console. */
export function answerIcon(): Response {
  return new Response(icon, {
    headers: {
      ...everywhere,
      "content-type": "image/svg+xml",
      "cache-control": "private, max-age=86400",
    },
  });
}
