import { EventLog } from "../../src/ca/issuance/event-log.ts";
import { WriteLine } from "../../src/foundation/events.ts";
import { GatewayConfiguration } from "../../src/node/gateway/gateway-configuration.ts";
import { serve } from "../../src/node/serve/serve.ts";
import { ServeConfiguration } from "../../src/node/serve/serve-configuration.ts";
import type { RunningServer } from "../../src/node/server.ts";
import type { ServingCertificate } from "../../src/node/tls.ts";
import { listenEchoing, listenRelaying } from "./bare-handlers.ts";
import { createFloors, type Floor, type FloorInput } from "./floor.ts";

type Values = Readonly<Record<string, unknown>>;

/** A command of the parent process. */
export type Command =
  | { readonly act: "serve" | "gateway"; readonly values: Values }
  | { readonly act: "echo"; readonly certificate: ServingCertificate }
  | { readonly act: "relay"; readonly certificate: ServingCertificate; readonly caPort: number }
  | { readonly act: "prepare-floors"; readonly input: FloorInput }
  | { readonly act: "floor"; readonly of: "web" | "node"; readonly times: number };

/** The answer to a command: the ports of a server, otherwise zeros. */
export interface Answer {
  readonly port: number;
  readonly plaintextPort: number;
}

const clock = () => new Date();
const serverContext = { log: EventLog.create(clock, WriteLine.toConsole), clock };
const nothing: Answer = { port: 0, plaintextPort: 0 };
let floors: Record<"web" | "node", Floor> | undefined;

process.on("message", async (command: Command) => {
  process.send?.(await carryOut(command));
});
process.on("disconnect", () => process.exit());

async function carryOut(command: Command): Promise<Answer> {
  switch (command.act) {
    case "serve":
      return portsOf(await serve(ServeConfiguration.parse(command.values), serverContext));
    case "gateway": {
      // Imported only here, so that the gateway's modules do not count as the CA's memory.
      const { runGateway } = await import("../../src/node/gateway/gateway.ts");
      return portsOf(await runGateway(GatewayConfiguration.parse(command.values), serverContext));
    }
    case "echo":
      return { ...nothing, port: await listenEchoing(command.certificate) };
    case "relay":
      return { ...nothing, port: await listenRelaying(command.certificate, command.caPort) };
    case "prepare-floors":
      floors = await createFloors(command.input);
      return nothing;
    case "floor":
      await floors?.[command.of](command.times);
      return nothing;
  }
}

async function portsOf({ address, plaintextAddress }: RunningServer<never>): Promise<Answer> {
  return { port: (await address).port, plaintextPort: plaintextAddress?.port ?? 0 };
}
