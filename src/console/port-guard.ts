import { CaError } from "../foundation/errors.ts";
import type { OperatorGuard } from "./operator-guard.ts";

/**
 * Admits every request that names an address or localhost as its host, or no host, for a port that only operators
 * reach. Other names are refused, because an attacker's name that leads to this port would give his page access to the console (DNS rebinding).
 */
export const portGuard = {
  asksForToken: false,
  sentence:
    "without CONSOLE_TOKENS the console answers under an address or localhost, and not under a name",
  require: async (headers) => {
    const host = headers.get("host");
    // A request without a host is no browser's: browsers always send one in HTTP/1.1, and use HTTP/2 only over TLS.
    if (host === null || addressPattern.test(host)) return;
    throw new CaError({ reason: "credential-missing" }, "the console was asked for under a name");
  },
} satisfies OperatorGuard;

/** An IPv4 or IPv6 address or `localhost`, with a port or without. */
const addressPattern = /^(?:localhost|\d{1,3}(?:\.\d{1,3}){3}|\[[0-9a-f:.]+\])(?::\d{1,5})?$/i;
