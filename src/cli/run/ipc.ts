import { EventEmitter, once } from "node:events";

/** What processes that are one server tell each other, all of it by way of the one that started them. */
export interface IpcMessage {
  readonly about: "serving" | "report-wanted" | "report" | "reports-wanted" | "reports";
  readonly content?: unknown;
}

/** An end of the line between two processes. */
export interface IpcChannel {
  readonly tell: (about: IpcMessage["about"], content?: unknown) => void;
  readonly when: (about: IpcMessage["about"], then: (content: unknown) => void) => void;
  /** Asks for something, and waits for the next that comes. Rejects when nothing comes in time. */
  readonly ask: (
    wanted: IpcMessage["about"],
    answer: IpcMessage["about"],
    milliseconds: number,
  ) => Promise<unknown>;
}

/** A child, for the process that started it; the process itself, for the one that was started. */
interface Correspondent {
  readonly connected: boolean;
  on(event: "message", listener: (mail: IpcMessage) => void): unknown;
  send?(mail: IpcMessage, sent: () => void): unknown;
}

export function openIpcChannel(other: Correspondent): IpcChannel {
  const inbox = new EventEmitter();
  other.on("message", ({ about, content }) => inbox.emit(about, content));
  const tell: IpcChannel["tell"] = (about, content) => {
    // Who is gone by now has no use for it.
    if (other.connected) other.send?.({ about, content }, () => {});
  };
  return {
    tell,
    when: (about, then) => inbox.on(about, then),
    ask: async (wanted, answer, milliseconds) => {
      const answered = once(inbox, answer, { signal: AbortSignal.timeout(milliseconds) });
      tell(wanted);
      const [content] = await answered;
      return content;
    },
  };
}
