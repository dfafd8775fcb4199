plugins {
    id("com.android.application")
}

android {
    namespace = "dev.edgec.samples.camera"
    compileSdk = 36
    defaultConfig {
        applicationId = "dev.edgec.samples.camera"
        minSdk = 24
        targetSdk = 36
        versionCode = 1
        versionName = "1"
    }
    // The model is mapped from the APK, so it stays as it is in it.
    androidResources { noCompress += listOf("vmfb", "safetensors") }
    compileOptions {
        sourceCompatibility = JavaVersion.VERSION_1_8
        targetCompatibility = JavaVersion.VERSION_1_8
    }
}

dependencies {
    implementation(project(":photos"))
    implementation("androidx.activity:activity:1.10.1")
    implementation("androidx.camera:camera-camera2:1.4.2")
    implementation("androidx.camera:camera-view:1.4.2")
}
