import { parseListenAddress } from "../../foundation/addresses.ts";
import { parsedText } from "../../foundation/text.ts";

/** The address on which a server listens. Without a host it is every address of the machine. */
export interface ListenAddress {
  readonly host?: string;
  readonly port: number;
  /** Whether other processes of the same user may listen there too. The kernel distributes connections. */
  readonly reusePort?: boolean;
}

/** `host:port`, `[IPv6]:port` or `:port`. */
export const listenAddress = parsedText<ListenAddress>(
  parseListenAddress,
  "must be <host>:<port>, [<IPv6 address>]:<port> or :<port>",
);
