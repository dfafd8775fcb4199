import android.content.Context
import android.content.res.AssetManager
import dev.edgec.models.digits.component1
import dev.edgec.models.digits.component2
import dev.edgec.models.digits.openDigits
import java.io.File

/** Opens the digits from a folder of assets, reads an empty image and prints what comes back. */
fun main(words: Array<String>) {
    val context = Context(AssetManager(File(words[0]), false, 4096))
    context.openDigits().use { model ->
        val (label, scores) = model.main(FloatArray(64))
        println("${label[0]} ${scores.joinToString(" ")}")
    }
}
