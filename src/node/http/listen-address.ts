import { bracketed, parseListenAddress } from "../../foundation/addresses.ts";
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

/** Where a program that listens there says on this machine whether it is ready, unless the system chooses the port. */
export const readyUrlAt = ({ host = "127.0.0.1", port }: ListenAddress): string | undefined =>
  port === 0 ? undefined : `http://${bracketed(host)}:${port}/readyz`;
