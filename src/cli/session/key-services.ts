import type { Configuration } from "../../config/configuration.ts";
import { kekOctets } from "../../custody/kek.ts";
import type { KeyServices } from "../../custody/key-service/key-services.ts";
import { nodeKeyCustody } from "../../node/key-service/key-custody.ts";
import type { Terminal } from "../terminal/terminal.ts";
import { openDeployment } from "./deployment.ts";
import type { SessionOptions } from "./session.ts";

/** The configuration of a CA, whose store stays closed, and the key services by the operator's credentials. */
export async function openKeyServices(
  { clock, environment }: Terminal,
  options: SessionOptions,
): Promise<{ readonly configuration: Configuration; readonly keyServices: KeyServices }> {
  // A CA that is new has no KEK yet, and no KEK is used here but one that is named.
  const none = `none:${Buffer.alloc(kekOctets).toString("base64")}`;
  const choice = { ...options, dryRun: true, mayBeNew: true };
  const { configuration, close } = await openDeployment(
    choice,
    { KEK: none, ...environment },
    clock(),
  );
  await close();
  const { keyServices } = nodeKeyCustody(configuration, environment, clock);
  return { configuration, keyServices };
}
