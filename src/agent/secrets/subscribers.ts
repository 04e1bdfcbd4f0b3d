/** Those who want to hear that something changed; what it is now, they look up themselves. */
export class Subscribers<Topic = void> {
  readonly #listeners = new Set<(topic: Topic) => void>();

  /** Ends with the function that it returns. */
  add(listener: (topic: Topic) => void): () => void {
    // The same function may subscribe twice, and each ends on its own.
    const own = (topic: Topic): void => listener(topic);
    this.#listeners.add(own);
    return () => void this.#listeners.delete(own);
  }

  notify(topic: Topic): void {
    for (const listener of [...this.#listeners]) listener(topic);
  }
}
