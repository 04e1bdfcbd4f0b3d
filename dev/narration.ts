/** Prints one line about the progress of the start, or about a result. */
export function say(topic: string, text: string): void {
  console.log(`  ${topic.padEnd(14)}${text}`);
}
