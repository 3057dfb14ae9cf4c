package kafka.server

import kafka.utils.Logging
import org.apache.kafka.common.TopicPartition
import org.apache.kafka.common.errors.InvalidTopicException
import org.apache.kafka.common.internals.Topic
import org.apache.kafka.common.message.DeleteRecordsResponseData.DeleteRecordsPartitionResult
import org.apache.kafka.common.protocol.Errors
import scala.collection.Map
import scala.util.control.NonFatal

/** DeleteRecords v3 (KIP-1343) of Lowwater's preview broker: stands before the replica manager.
  *
  * Leader-only truncates the leader and answers at once, past the purgatory. Waiting for all goes
  * on as in any broker. Both add where the leader's own log starts; an error carries -1 and -1.
  */
private[server] class LeaderOnlyPreview(replicas: ReplicaManager) extends Logging {
  private type Results = Map[TopicPartition, DeleteRecordsPartitionResult]
  private val Unknown = -1L

  def deleteRecords(
      leaderOnly: Boolean,
      timeoutMs: Long,
      targets: Map[TopicPartition, Long],
      answer: Results => Unit
  ): Unit =
    if (leaderOnly) answer(targets.map { case (at, target) => at -> truncate(at, target) })
    else
      replicas.deleteRecords(
        timeoutMs,
        targets,
        results => answer(results.map { case (at, result) => at -> withLogStart(at, result) })
      )

  private def truncate(at: TopicPartition, target: Long): DeleteRecordsPartitionResult = {
    val result = new DeleteRecordsPartitionResult().setPartitionIndex(at.partition)
    try {
      if (Topic.isInternal(at.topic)) throw new InvalidTopicException(s"${at.topic} is internal")
      val truncated = replicas.getPartitionOrException(at).deleteRecordsOnLeader(target)
      withLogStart(at, result.setLowWatermark(truncated.lowWatermark))
    } catch {
      case NonFatal(failure) =>
        val code = Errors.forException(failure)
        if (code == Errors.UNKNOWN_SERVER_ERROR) error(s"Deleting records of $at failed", failure)
        result.setLowWatermark(Unknown).setErrorCode(code.code)
    }
  }

  /** After both no error and a timeout the leader has truncated itself. */
  private def withLogStart(
      at: TopicPartition,
      result: DeleteRecordsPartitionResult
  ): DeleteRecordsPartitionResult = {
    val truncated = Set(Errors.NONE.code, Errors.REQUEST_TIMED_OUT.code)(result.errorCode)
    val log = if (truncated) replicas.onlinePartition(at).flatMap(_.leaderLogIfLocal) else None
    result.setLeaderLogStartOffset(log.fold(Unknown)(_.logStartOffset))
  }
}
