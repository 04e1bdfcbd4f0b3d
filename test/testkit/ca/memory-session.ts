import { createSessionStore, type Session } from "../../../src/cli/session/session.ts";
import { Configuration } from "../../../src/config/configuration.ts";
import { randomKek } from "../configuration.ts";
import { MemoryTerminal } from "../programs/memory-terminal.ts";
import type { MemoryMint } from "./memory-mint.ts";

/** A verb's session over a memory mint. */
export function createMemorySession(mint: MemoryMint, now: Date): Session {
  return {
    terminal: new MemoryTerminal({ clock: () => now }),
    mint: { ...mint, store: createSessionStore(mint.store, false) },
    configuration: Configuration.parse({
      ISSUERS: [{ issuer: "https://a.test" }],
      KEK: randomKek(),
    }),
    place: "memory",
    now,
    log: mint.log,
    isDry: false,
    isConfirmed: true,
    currentView: async () => undefined,
  };
}
