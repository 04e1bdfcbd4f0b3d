import { EventEmitter, once } from "node:events";

/** A message between the processes of one server. All messages go through their parent. */
interface IpcMessage {
  readonly about: "serving" | "report-wanted" | "report" | "reports-wanted" | "reports";
  readonly content?: unknown;
}

/** One end of the channel between a parent and a child. */
export interface IpcChannel {
  readonly send: (about: IpcMessage["about"], content?: unknown) => void;
  readonly on: (about: IpcMessage["about"], listener: (content: unknown) => void) => void;
  /** Sends a request and resolves with the next answer. Rejects when none comes in time. */
  readonly request: (
    wanted: IpcMessage["about"],
    answer: IpcMessage["about"],
    milliseconds: number,
  ) => Promise<unknown>;
}

/** The other process: for a parent the `ChildProcess`, for a child its own `process`. */
interface IpcPeer {
  readonly connected: boolean;
  on(event: "message", listener: (message: IpcMessage) => void): unknown;
  send?(message: IpcMessage, sent: () => void): unknown;
}

export function openIpcChannel(peer: IpcPeer): IpcChannel {
  const inbox = new EventEmitter();
  peer.on("message", ({ about, content }) => inbox.emit(about, content));
  const send: IpcChannel["send"] = (about, content) => {
    // A peer that is gone needs no message.
    if (peer.connected) peer.send?.({ about, content }, () => {});
  };
  return {
    send,
    on: (about, listener) => inbox.on(about, listener),
    request: async (wanted, answer, milliseconds) => {
      const answered = once(inbox, answer, { signal: AbortSignal.timeout(milliseconds) });
      send(wanted);
      const [content] = await answered;
      return content;
    },
  };
}
