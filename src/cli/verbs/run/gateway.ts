import type { Command } from "commander";
import {
  gatewayKeys,
  gatewayRestartKeys,
  parseGatewayConfiguration,
} from "../../../node/gateway/gateway-configuration.ts";
import type { Terminal } from "../../terminal/terminal.ts";
import { followingCommand } from "./following.ts";

/** `rampart gateway`: native gRPC for a CA that is reached over HTTPS. */
export const gatewayCommand = (terminal: Terminal): Command =>
  followingCommand("gateway", terminal, {
    description: "Serve native gRPC in front of a CA that is reached over HTTPS.",
    keys: gatewayKeys,
    parse: parseGatewayConfiguration,
    restartKeys: gatewayRestartKeys,
    // Loaded only here, because it imports much that its help does not need.
    start: async (...given) =>
      (await import("../../../node/gateway/gateway.ts")).runGateway(...given),
  });
