// What a message says: its texts as they were sent, and its attachments.
import { Tabs } from '@mantine/core'
import { CodeBlock } from '../kit/CodeBlock.tsx'

type Content = {
  text: string | null
  html: string | null
  body: string | null
  attachments?: { filename: string; content_type: string; size: number }[] | null
}

/** HTML is shown as it is written: what strangers may have put into it is never run here. */
export function MessageContent({ message: { text, html, body, attachments = null } }: { message: Content }) {
  const parts = [
    { name: 'Text', text: body ?? text },
    { name: 'HTML', text: html },
  ].flatMap((part) => (part.text === null ? [] : [{ name: part.name, text: part.text }]))
  return (
    <>
      {parts.length === 0 && <p className="dim">Its text is not kept.</p>}
      {parts.length > 0 && (
        <Tabs defaultValue={parts[0]!.name}>
          {parts.length > 1 && (
            <Tabs.List>
              {parts.map(({ name }) => (
                <Tabs.Tab key={name} value={name}>
                  {name}
                </Tabs.Tab>
              ))}
            </Tabs.List>
          )}
          {parts.map((part) =>
            part.name === 'HTML' ? (
              <Tabs.Panel key={part.name} value={part.name}>
                <CodeBlock text={part.text} label="HTML" />
              </Tabs.Panel>
            ) : (
              <Tabs.Panel key={part.name} value={part.name}>
                <div className="letter">{part.text}</div>
              </Tabs.Panel>
            ),
          )}
        </Tabs>
      )}
      {attachments !== null && attachments.length > 0 && (
        <ul className="line" aria-label="Attachments">
          {attachments.map(({ filename, content_type, size }) => (
            <li key={filename} className="chip" title={content_type}>
              {filename}&nbsp;<span className="dim">{size.toLocaleString()} bytes&nbsp;</span>
            </li>
          ))}
        </ul>
      )}
    </>
  )
}
