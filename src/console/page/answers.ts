import { toBase64 } from "../../pki/encoding/base64.ts";
import { mark, style } from "./page.ts";

const everywhere = {
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
  "cross-origin-resource-policy": "same-origin",
};

/** Answers with a sentence. */
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

/** Answers with a page, which nothing may keep or frame, and which loads nothing from elsewhere. */
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
  styleDigest ??= toBase64(
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

/** Answers with the icon of the page. */
export function answerIcon(): Response {
  return new Response(icon, {
    headers: {
      ...everywhere,
      "content-type": "image/svg+xml",
      "cache-control": "private, max-age=86400",
    },
  });
}
