import { readConfigurationFile } from "../../../node/files/configuration-file.ts";
import type { ServerContext } from "../../../node/server.ts";
import {
  fileState,
  type Reconfigure,
  RunningConfiguration,
  type Values,
} from "../../../program/running-configuration.ts";
import { orOperatorError } from "../../terminal/failures.ts";

/** A program whose configuration may change while it runs. */
export interface ReloadingProgram<C, S> {
  /** The file of the configuration. */
  readonly path: string;
  /** The environment, of which the secrets of the configuration are taken. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly parse: (values: Values) => C;
  readonly restartKeys: readonly string[];
  readonly start: (first: C, context: ServerContext) => Promise<S>;
}

/** A server that takes on another configuration while it runs. */
export interface Reconfigurable<C> {
  readonly reconfigure: Reconfigure<C>;
  readonly close: (graceMilliseconds: number) => Promise<void>;
}

/**
 * Starts a program, and has it follow its configuration file and SIGHUP. The environment stays as it was at
 * the start.
 *
 * @throws OperatorError
 */
export async function startReloading<C, S extends Reconfigurable<C>>(
  { path, environment, parse, restartKeys, start }: ReloadingProgram<C, S>,
  context: ServerContext,
): Promise<S> {
  const variables = { ...environment };
  let mayBePipe = true;
  const { first, running } = await orOperatorError(() =>
    RunningConfiguration.open(
      {
        read: () => readConfigurationFile(path, variables, { mayBePipe }),
        state: () => fileState(path),
        parse,
        restartKeys,
      },
      context,
    ),
  );
  mayBePipe = false;
  process.on("SIGHUP", running.ask);
  const configurationStatus = running.status;
  const server = await orOperatorError(() => start(first, { ...context, configurationStatus }));
  const ending = new AbortController();
  const following = running.follow(server.reconfigure, ending.signal);
  return {
    ...server,
    close: async (graceMilliseconds) => {
      // No reload may begin while the server ends. One that is under way may hang at another server.
      ending.abort();
      await server.close(graceMilliseconds);
      await following;
    },
  };
}
