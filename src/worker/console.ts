import { createFetchHandler } from "@connectrpc/connect/protocol";
import type { Hono } from "hono";
import type { Composition } from "../config/composition.ts";
import type { Configuration } from "../config/configuration.ts";
import { Console, ConsoleScript } from "../console/console.ts";
import { OperatorGuard } from "../console/operator-guard.ts";
import type { PushReport } from "../delivery/cluster-push.ts";
import { build } from "../foundation/build.ts";
import { scriptIntegrity, scriptPath } from "../gen/console/script-name.ts";
import type { LogSearch } from "../status/log-search.ts";
import { Status } from "../status/status.ts";
import { type Environment, isBinding } from "./variables.ts";

/** The binding of the folder with the page's script. */
const assetsBinding = "CONSOLE_ASSETS";

interface WorkerConsoleParts {
  readonly configuration: Configuration;
  /** Who may see the console. */
  readonly console: NonNullable<Configuration["console"]>;
  readonly composition: Composition;
  readonly push: PushReport;
  readonly crlPush: PushReport;
  readonly environment: Environment;
}

/** Adds the console's routes to a Worker's: the status service, `/`, and everything below `/console/`. */
export type AddConsole = (app: Hono, parts: WorkerConsoleParts) => void;

/**
 * Creates the function that adds the console to a Worker.
 *
 * @param searchIn Makes the issuance log searchable; absent from a main module without a log, which is smaller.
 */
export const createConsole =
  (searchIn?: typeof LogSearch.in): AddConsole =>
  (app, parts) => {
    const { configuration, composition, push, crlPush, environment } = parts;
    const { certificateAuthority, issuers, accessKeys } = composition;
    const { clock, log, publishedLog } = certificateAuthority;
    const status = Status.create({
      configuration,
      issuers,
      push,
      crlPush,
      searchableLog: searchIn?.(publishedLog),
      program: `Rampart ${build} on Workers, as one isolate sees it`,
      issuance: certificateAuthority.issuance,
      hasCredentials: true,
    });
    const guard = OperatorGuard.create(parts.console, accessKeys);
    const script = scriptIn(environment[assetsBinding]);
    const console = Console.create({
      status,
      guard,
      clock,
      log,
      script,
      wordsFor,
      hasTrailers: false,
    });
    for (const handler of console.handlers) {
      const answer = createFetchHandler(handler);
      app.all(handler.requestPath, (c) => answer(c.req.raw));
    }
    const answer = async (request: Request): Promise<Response> =>
      (await console.answer(request)) ?? new Response("not found\n", { status: 404 });
    app.all("/", (c) => answer(c.req.raw));
    app.all("/console/*", (c) => answer(c.req.raw));
  };

/** The page's script; `undefined` if it was not deployed, so that the page does not update itself. */
function scriptIn(assets: unknown): ConsoleScript | undefined {
  if (!isBinding<Pick<Fetcher, "fetch">>(assets, "fetch")) return undefined;
  return {
    path: scriptPath,
    integrity: scriptIntegrity,
    answer: async (request) => {
      const { body, status } = await assets.fetch(new URL(scriptPath, request.url).href);
      return new Response(body, { status, headers: ConsoleScript.headers });
    },
  };
}

/** Adds `--remote` to a command, but not to `cluster enrol`, nor under `wrangler dev` (plain HTTP), whose store is local. */
const wordsFor = (words: string, { protocol }: URL): string =>
  protocol === "https:" && !words.startsWith("cluster enrol") ? `${words} --remote` : words;
