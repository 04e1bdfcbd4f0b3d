/** What all addresses of one network have in a queue. */
export interface Network {
  lanes: number;
  waiting: number;
  underWay: number;
}

/** What one address has in a queue. */
export interface Lane<Piece> {
  readonly address: string;
  readonly network: Network;
  readonly waiting: Set<Piece>;
  underWay: number;
  begunInPass: number;
}

/** Whether a lane has more that waits, by two: in its network, or within the network that both share. */
export function hasMoreWaiting(one: Lane<unknown>, other: Lane<unknown>): boolean {
  if (one.network === other.network) return one.waiting.size > other.waiting.size + 1;
  return one.network.waiting > other.network.waiting + 1;
}

/** As {@link hasMoreWaiting}, for work under way. */
export function hasMoreUnderWay(one: Lane<unknown>, other: Lane<unknown>): boolean {
  if (one.network === other.network) return one.underWay > other.underWay + 1;
  return one.network.underWay > other.network.underWay + 1;
}
