// Search in a site that was opened from the disk. No browser starts a worker there, so the search runs in a
// hidden frame instead; the theme asks for a class of this name, and its worker waits for what it imports.
window.IFrameWorker = class extends EventTarget {
  constructor(url) {
    super()
    const frame = document.createElement("iframe")
    frame.hidden = true
    document.body.append(frame)
    const inside = frame.contentWindow
    const load = (address) =>
      new Promise((loaded, failed) => {
        const script = inside.document.createElement("script")
        Object.assign(script, { src: address, onload: loaded, onerror: failed })
        inside.document.head.append(script)
      })
    inside.importScripts = (...urls) =>
      urls.reduce((before, each) => before.then(() => load(each)), Promise.resolve())
    inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }))
    this.inside = inside
    this.ready = load(new URL(url, document.baseURI))
  }

  postMessage(data) {
    this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })))
  }
}
if (location.protocol === "file:") window.Worker = window.IFrameWorker
